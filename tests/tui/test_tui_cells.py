"""Text in cells: widths hold for every text."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.widgets.cells import cut_to, fit, width_of

texts = st.text(st.characters(exclude_categories=("Cs", "Cc", "Mn", "Me", "Cf")), max_size=40)


@given(texts, st.integers(1, 30), st.sampled_from(["left", "right"]), st.booleans())
def test_a_fitted_text_has_exactly_the_width(text, width, side, ascii_marks):
    ellipsis = "~" if ascii_marks else "…"
    assert cell_len(fit(text, width, ellipsis, side, side)) == width


@given(texts, st.integers(1, 30), st.sampled_from(["left", "right"]))
def test_a_text_that_fits_is_not_cut(text, room, cut):
    assert cut_to(text, width_of(text) + room, "…", cut) == text


def test_names_are_cut_where_they_are_alike():
    assert cut_to("model/layer_2/Softmax", 12, "…", "left") == "…r_2/Softmax"
    assert cut_to("model/layer_2/Softmax", 12, "…", "right") == "model/layer…"


def test_wide_characters_count_twice():
    assert width_of("层") == 2
    assert fit("层层层", 5, "…") == "层层…"
    assert fit("层层层", 4, "…") == "层… "
