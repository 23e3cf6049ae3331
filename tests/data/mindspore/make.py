"""Writes what lies here, with MindSpore 2.10 (``pip install mindspore``) on a CPU.

Run it with MINDSPORE_DUMP_CONFIG naming a file with the content of ``DUMP``. Of the graphs the
addresses in the source (field 9 of a node, lines ``# In file``) were then taken out.
"""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

DUMP = """{"common_dump_settings": {"op_debug_mode": 0, "dump_mode": 0, "path": "/tmp/dump",
 "net_name": "Net", "iteration": "all", "saved_data": "tensor", "input_output": 0, "kernels": [],
 "support_device": [0]}, "e2e_dump_settings": {"enable": true, "trans_flag": true}}"""


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(3, 4)
        self.top = ops.TopK(sorted=True)

    def construct(self, x):
        if ops.reduce_sum(x) > 0:  # noqa: SIM108 - the compiler makes two functions of it
            y = self.fc(x)
        else:
            y = self.fc(-x)
        values, _ = self.top(ops.relu(y), 2)
        return values


if __name__ == "__main__":
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    ms.set_seed(1)
    net = Net()
    x = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    net(x)
    ms.export(net, x, file_name="net", file_format="MINDIR")
