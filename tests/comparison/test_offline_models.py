"""A run whose device graph is the offline model itself, or another form of it."""

from __future__ import annotations

import pytest

from divergraph.comparison import CompareRequest, compare
from divergraph.rootcause.options import MethodChoice

pytestmark = pytest.mark.shared


@pytest.mark.parametrize("device", ["om/autoencoder_hh_om.om", "dumps/autoencoder_hh/hh_om.json"])
def test_the_origin_is_found_from_a_compiled_model(shared_data, tmp_path, device):
    dumps = shared_data / "dumps" / "autoencoder_hh"
    renamed = tmp_path / "compiled.bin"
    renamed.write_bytes((shared_data / device).read_bytes())
    data = compare(
        CompareRequest(
            golden=shared_data / "tf" / "autoencoder_hh.pb",
            golden_dump=dumps / "golden_npy",
            device=renamed,
            device_dump=dumps / "npu_dump",
            method=MethodChoice.THRESHOLDS,
        )
    )
    (origin,) = data.origins
    assert origin.op == "generation/z_matrix/MatMul"
    assert origin.metrics.cosine_similarity == pytest.approx(0.95139, abs=1e-5)
    assert data.run.counts.compared == 27
