"""A saved PyG Data: no code of a file is run, and what is no plain Data is named."""

import os
import pickle

from caribou.datasets import read_graph
from dataset_support import fails


class Bomb:
    """A pickle of this object creates a file when it is loaded without care."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (self.target,)


class TestSaved:
    def test_a_malicious_pickle_is_refused(self, tmp_path):
        import torch
        from torch_geometric.data import Data

        trap = str(tmp_path / "trap")
        bare = tmp_path / "bare.pt"
        bare.write_bytes(pickle.dumps(Bomb(trap)))
        torch.save(Bomb(trap), tmp_path / "plain.pt")
        torch.save(
            Data(x=torch.eye(3), edge_index=torch.zeros(2, 0, dtype=torch.long), y=Bomb(trap)), tmp_path / "in.pt"
        )
        torch.save({"x": Bomb(trap)}, tmp_path / "legacy.pt", _use_new_zipfile_serialization=False)
        for file in ("bare.pt", "plain.pt", "in.pt", "legacy.pt"):
            fails(f"{file}: not a PyG Data that can be loaded safely", tmp_path / file)
            assert not os.path.exists(trap)
        pickle.loads(bare.read_bytes())
        assert os.path.exists(trap)  # the trap works where nobody takes care

    def test_messages_do_not_repeat_those_of_torch(self, tmp_path, valid_files):
        target = tmp_path / "g.pt"
        whole = valid_files["pt"][0].read_bytes()
        for junk in (b"junk", b"PK junk", b"\x80\x02junk", b"hello world\n" * 50, b"1", whole[:-30], whole[100:]):
            target.write_bytes(junk)
            message = fails("g.pt: not a PyG Data that can be loaded safely", target)
            assert message.endswith("; the file is damaged, or torch.save did not write it")
        target.write_bytes(pickle.dumps(Bomb(str(tmp_path / "trap"))))
        assert not any(word in fails("loaded safely", target) for word in ("Error", "weights_only", "pickle"))

    def test_only_the_classes_of_a_plain_data_are_allowed(self, tmp_path, valid_files):
        import torch
        from torch_geometric.data import HeteroData

        hetero = HeteroData()
        hetero["a"].x = torch.eye(2)
        torch.save(hetero, tmp_path / "h.pt")
        before = set(torch.serialization.get_safe_globals())
        fails("not a PyG Data that can be loaded safely .* got an object of .*HeteroData", tmp_path / "h.pt")
        read_graph(*valid_files["pt"])
        assert set(torch.serialization.get_safe_globals()) == before

    def test_other_contents(self, tmp_path):
        import torch
        from torch_geometric.data import Data

        target = tmp_path / "g.pt"
        empty = torch.zeros(2, 0, dtype=torch.long)
        for content, message in (
            ({"x": torch.eye(2)}, "must hold one torch_geometric.data.Data, got dict"),
            (torch.eye(2), "must hold one torch_geometric.data.Data, got Tensor"),
            (Data(edge_index=empty, num_nodes=2**31 - 2), "needs a dense x or a y"),
            (Data(edge_index=empty, x=torch.zeros(1).expand(10**9, 3)), "tensor x claims 3000000000 entries"),
            (Data(edge_index=empty, x=torch.sparse_coo_tensor(size=(10**9, 3))), "needs a dense x or a y"),
            (
                Data(edge_index=empty, y=torch.zeros(3), num_nodes=10**9),
                r"one entry per node \(1000000000\), got 3",
            ),
            (Data(edge_index=empty, x=torch.eye(2), y=torch.tensor([0.5, 1])), "whole numbers"),
            (Data(x=torch.eye(2)), "edge_index must be"),
            (Data(edge_index=empty, x=torch.eye(3, device="meta")), "damaged|claims"),
        ):
            torch.save(content, target)
            fails(message, target)
