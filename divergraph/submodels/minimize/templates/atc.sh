#!/bin/bash
# Tries a part of a model on an Ascend NPU: ATC builds it, msame or ais_bench runs it.
#
#   divergraph minimize RUN --oracle "command:./atc.sh {bundle}" --timeout 1800
#
# Set SOC to your chip (npu-smi info shows it), e.g. SOC=Ascend310P3.
# Exit codes: 0 ran (what it wrote into made/ is compared for us), 2 cannot be told.
# A build that fails ends with 2 on purpose: it is no wrong result.
set -u
bundle=${1:?the folder of a bundle}
soc=${SOC:?set SOC to the name of your chip}
variant=${DIVERGRAPH_VARIANT:-golden}
cd "$bundle" || exit 2

# Shapes of the inputs and the files to feed, from the manifest. The model keeps the types
# it had; a model with float16 inputs takes the .fp16.bin files beside them.
read -r shapes files < <(python3 - "$variant" <<'PYTHON'
import json, sys
manifest = json.load(open("manifest.json", encoding="utf-8"))
shapes, files = [], []
for tensor in manifest["inputs"]:
    shapes.append(tensor["called"] + ":" + ",".join(map(str, tensor["shape"])))
    stem = tensor[sys.argv[1]].removesuffix(".npy")
    if tensor["dtype"] in ("float32", "float16"):
        files.append(stem + (".fp16.bin" if tensor["dtype"] == "float16" else ".fp32.bin"))
    else:
        files.append(f"{stem}.{tensor['numpy']}.bin")
print(";".join(shapes), ",".join(files))
PYTHON
) || exit 2

# --out_nodes is not needed: the part's own outputs are the model's outputs.
atc --model=dump.onnx --framework=5 --output=part --soc_version="$soc" \
    --input_shape="$shapes" >build.log 2>&1 || { tail -n 1 build.log; exit 2; }

mkdir -p ran
if command -v msame >/dev/null; then
    msame --model part.om --input "$files" --output ran --outfmt BIN >run.log 2>&1 \
        || { tail -n 1 run.log; exit 2; }
else
    python3 -m ais_bench --model part.om --input "$files" --output ran --outfmt BIN \
        >run.log 2>&1 || { tail -n 1 run.log; exit 2; }
fi

# Outputs come in the order of the model's; write each as the .npy the manifest names.
python3 - <<'PYTHON'
import json, pathlib, sys
import numpy as np
manifest = json.load(open("manifest.json", encoding="utf-8"))
found = sorted(pathlib.Path("ran").rglob("*.bin"))
if len(found) < len(manifest["outputs"]):
    sys.exit(2)
for tensor, path in zip(manifest["outputs"], found):
    value = np.fromfile(path, tensor["numpy"]).reshape(tensor["shape"])
    name = pathlib.Path(tensor["golden"]).name.removesuffix(".golden.npy")
    np.save(pathlib.Path("made") / f"{name}.npy", value)
PYTHON
