#!/bin/bash
# Tries a part of a model with TensorRT, through Polygraphy (trtexec works alike).
#
#   divergraph minimize RUN --oracle "command:./tensorrt.sh {bundle}" --timeout 1800
#
# FLAGS holds what your build uses, e.g. FLAGS="--fp16".
# Exit codes: 0 ran (what it wrote into made/ is compared for us), 2 cannot be told.
# A build that fails ends with 2 on purpose: it is no wrong result.
set -u
bundle=${1:?the folder of a bundle}
cd "$bundle" || exit 2

python3 - "${DIVERGRAPH_VARIANT:-golden}" <<'PYTHON' || exit 2
import json, sys
import numpy as np
from polygraphy.json import save_json
manifest = json.load(open("manifest.json", encoding="utf-8"))
feeds = {t["called"]: np.load(t[sys.argv[1]]).astype(t["numpy"]) for t in manifest["inputs"]}
save_json([feeds], "feeds.json")
PYTHON

# shellcheck disable=SC2086
polygraphy run dump.onnx --trt ${FLAGS:-} --load-inputs feeds.json --save-outputs ran.json \
    >run.log 2>&1 || { tail -n 1 run.log; exit 2; }

python3 - <<'PYTHON'
import json, pathlib
import numpy as np
from polygraphy.comparator import RunResults
manifest = json.load(open("manifest.json", encoding="utf-8"))
_, (iteration,) = RunResults.load("ran.json")[0]
for tensor in manifest["outputs"]:
    name = pathlib.Path(tensor["golden"]).name.removesuffix(".golden.npy")
    np.save(pathlib.Path("made") / f"{name}.npy", np.asarray(iteration[tensor["called"]]))
PYTHON
