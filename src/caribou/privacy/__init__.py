"""The privacy calculus: numbers in, numbers out. Nothing here sees a graph or a tensor."""
