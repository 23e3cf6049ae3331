"""Texts kept as bytes, and looked for by their checksums."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphstore.columns import packed_texts
from graphstore.columns.packed_texts import PackedTexts, PlacesOfTexts

TEXTS = st.lists(
    st.text(st.characters(exclude_characters="\0", exclude_categories=())), unique=True
)


@given(TEXTS, st.integers(-9, 9), st.integers(-9, 9))
def test_they_are_the_texts_before_and_after_all_are_made(
    texts: list[str], first: int, until: int
) -> None:
    packed = PackedTexts.of(texts)
    for _ in range(2):
        assert packed[first:until] == tuple(texts[first:until])
        assert [packed[at] for at in range(-len(texts), len(texts))] == texts * 2
        assert list(packed) == texts
        assert packed == tuple(texts)
        assert packed == PackedTexts.of(texts)
    assert packed != (*texts, "more")


@pytest.mark.parametrize("many", [0, 10**6])
def test_a_place_is_found_by_text_in_checksums_or_a_table(
    monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr(packed_texts, "_MANY", many)
    texts = ["plumless", "buckeroo", "größe", ""]  # the first two have one checksum
    packed = PackedTexts.of(texts)
    places = PlacesOfTexts(packed, packed.checksums())
    assert len(set(packed.checksums().tolist())) == 3
    assert [places[text] for text in texts] == [0, 1, 2, 3]
    assert places.get("buckero") is None
    assert "codding" not in places
    assert dict(places) == {text: at for at, text in enumerate(texts)}


def test_a_text_that_cannot_be_told_from_two_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        PackedTexts.of(["a\0b"])
