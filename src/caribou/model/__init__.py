"""Models as a user holds them: `estimator` fits and predicts, `state` is what is saved, `growth` says who may be extended."""
