"""The contract of dump readers. Built-in and third-party readers are registered the same way.

A reader of a new format is one class in one file, registered as an entry point of the group
``divergraph.dumps``. It says which files are its own (``endings``, or :meth:`DumpReader.claims`)
and lists the tensors of one file (:meth:`DumpReader.tensors`, with :func:`named_tensor`); values
that lie in the file as plain bytes need no more. Every question about a path (``detect``,
``compare``, ``diff``, ``tensor``, ``convert``, ``capture --inputs``) asks the readers, and
everything else here has a default that is made of these two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray

from graphstore.model import DType, DumpFormat, DumpTensorRef, ModelGraph, TensorIO
from graphstore.model import TensorStatistics as Statistics
from importers.contract import Confidence
from importers.dumps.bare.tensor import BareTensor, Identity, found_tensor, plain, scope_of
from importers.dumps.decode import stored_bytes
from importers.dumps.index import DamagedError, DumpIndex, FolderListing

ENTRY_POINT_GROUP = "divergraph.dumps"
"""Distributions register a :class:`DumpReader` class (or object) under this group."""

_TRIED = 3
"""Files of a kind whose content is looked at; a folder's files are of one writer."""


@dataclass(frozen=True, slots=True)
class DumpChoice:
    """Which of several dumps to take, as the user says; None where any will do.

    ``time`` is the folder of 14 digits, ``rank`` a rank or device id, ``step`` a step,
    iteration or data index.
    """

    time: str | None = None
    rank: int | None = None
    model_id: int | None = None
    step: int | None = None


ANY_DUMP = DumpChoice()


@dataclass(frozen=True, slots=True)
class FoundDump:
    """A kind of dump (the name of its reader) in one place. ``files`` counts its files as far as
    names tell; the levels are empty where the place has none."""

    path: Path
    kind: str
    confidence: Confidence
    reason: str
    files: int = 0
    time: str = ""
    rank: str = ""
    model: str = ""
    model_id: str = ""
    step: str = ""


@dataclass(frozen=True, slots=True)
class RawForm:
    """What the user says of files that do not tell: element type, and shape or None for
    one axis of all elements."""

    dtype: DType | None = None
    shape: tuple[int, ...] | None = None

    @property
    def raw_type(self) -> DType | None:
        """The element type if numpy has no name for it, so that arrays do not tell it either."""
        return self.dtype if self.dtype is not None and self.dtype.numpy is None else None


NO_FORM = RawForm()


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A file whose tensors are asked for: its name without folder (the long one behind a number),
    its folder below the place where the search began, and its size in bytes."""

    path: Path
    file: str
    folder: str
    size: int

    @property
    def scope(self) -> str:
        """The folder without levels that are a time only."""
        return scope_of(self.folder)

    @property
    def stem(self) -> str:
        """The name without its ending."""
        return self.file.rpartition(".")[0] or self.file

    def below(self, name: str) -> str:
        """A tensor's *name* with the folder before it."""
        return f"{self.folder}/{name}" if self.folder else name


class DumpReader:
    """Reads dumps of one format. A subclass sets ``name`` and ``reads``, says which files are its
    own, and lists their tensors; readers hold no state."""

    name: ClassVar[str]
    """The format's short name, e.g. ``safetensors``; unique among the installed readers."""
    reads: ClassVar[str]
    """What it reads, as one phrase for people."""
    endings: ClassVar[tuple[str, ...]] = ()
    """Endings that all names of its files have, empty if they have none in common."""
    diff_only: ClassVar[bool] = False
    """Whether its files tell too little to be held against a graph: ``diff`` alone takes them."""
    generic: ClassVar[bool] = False
    """Whether another reader that claims a file goes first."""
    whole_file: ClassVar[bool] = False
    """Whether one file is a whole dump that can be given in place of a folder."""
    whole_folder: ClassVar[bool] = False
    """Whether a folder that it :meth:`owns` is its own, whatever else lies in it; such a reader is
    asked nothing about other folders."""
    names_inputs: ClassVar[bool] = True
    """Whether ``capture --inputs FILE`` finds a model's inputs in it by their names."""
    inner_levels: ClassVar[frozenset[str]] = frozenset()
    """Which of ``rank`` and ``step`` are told apart inside one folder or file."""
    step_folder: ClassVar[str] = ""
    """A regular expression of folder names that number the steps, with one group."""

    def claims(self, name: str, folder: str) -> Confidence:
        """Whether a file of this *name* in a folder called *folder* is this reader's.

        MAYBE: such files are often something else, so a folder of them is a dump only where
        there is no other below it. Called for every file of a tree: by name alone.
        """
        return Confidence.SURE if name.endswith(self.endings) else Confidence.NO

    def claims_folder(self, name: str) -> bool:
        """Whether a folder of this *name* makes the one it lies in a dump."""
        return False

    def is_dump(self, path: Path) -> bool:
        """Whether the content of a file whose name is claimed says the same."""
        return True

    def owns(self, listing: FolderListing) -> bool:
        """Whether a folder is a dump of this reader of whole folders."""
        return False

    def files_in(self, listing: FolderListing) -> list[str]:
        """The files of this reader in a folder, by name."""
        names = listing.files
        if self.endings:  # most files of a large folder are out at once
            names = tuple(name for name in names if name.endswith(self.endings))
        folder = listing.folder.name
        return [name for name in names if self.claims(name, folder)]

    def detect(self, listing: FolderListing) -> Iterator[FoundDump]:
        """What of a folder is this reader's, with the reason; by default the first files are
        listed, and one that can be is proof."""
        if not (names := self.files_in(listing)):
            return
        reason, confidence = "", Confidence.MAYBE
        for name in names[:_TRIED]:
            try:
                proof = self.proof(listing.folder / name)
            except DamagedError as damage:
                reason = f"{name}: {damage.detail}"
            else:
                reason, confidence = f"{name} {proof}", Confidence.SURE
                break
        yield FoundDump(listing.folder, self.name, confidence, reason, len(names))

    def proof(self, path: Path) -> str:
        """What a file proves to be, to follow its name: ``holds 3 tensors``.

        Raises:
            DamagedError: it is not what it is called.
        """
        size = path.stat().st_size if path.exists() else 0
        tensors = list(self.tensors(FilePlace(path, path.name, "", size), NO_FORM))
        if not tensors:
            raise DamagedError("it holds no tensor")
        for tensor in tensors:
            if tensor.reason is not None:
                raise DamagedError(tensor.damage, tensor.reason)
        many = "a tensor" if len(tensors) == 1 else f"{len(tensors)} tensors"
        return f"holds {many}" + ("; diff reads it" if self.diff_only else "")

    def parts(self, dump: FoundDump) -> Iterator[FoundDump]:
        """*dump* once for each rank and step that it holds."""
        yield dump

    def lists(self, name: str, folder: str) -> bool:
        """Whether :meth:`tensors` lists the values of a file so called."""
        return self.claims(name, folder) is not Confidence.NO

    def tensors(self, place: FilePlace, form: RawForm) -> Iterator[BareTensor]:
        """The tensors of one file without a graph; *form* is what the user says of raw values.

        Raises:
            DamagedError: the file cannot be read.
        """
        raise NotImplementedError

    def array_name(self, tensor: BareTensor) -> str:
        """What the array file of a tensor is called that is written by itself, without ending."""
        if tensor.model_name:
            return tensor.model_name + ("" if tensor.port is None else f".{tensor.port}")
        inside = tensor.name.rpartition("/")[2]
        return tensor.path.stem if inside in (tensor.path.name, tensor.path.stem) else inside

    def folder_tensors(self, folder: Path, below: str) -> Iterator[BareTensor] | None:
        """The tensors of a folder that this reader owns, *below* being the folder's name from
        where the search began; None where they are those of its files.

        Raises:
            DamagedError: what describes the folder cannot be read.
        """
        return None

    def value_files(self, listing: FolderListing) -> Iterable[Path]:
        """The files with the values of a folder that this reader owns."""
        return [listing.folder / name for name in self.files_in(listing)]

    def other_names(self, name: str) -> Iterable[str]:
        """Names to look a tensor up by in a graph that does not have its own."""
        return ()

    def scan(self, listing: FolderListing, graph: ModelGraph, choice: DumpChoice) -> DumpIndex:
        """The tensors of this reader's files by op of *graph*: by default by their names.

        Raises:
            DamagedError: what describes the whole dump is damaged.
        """
        from importers.dumps.by_name import scan_by_name

        return scan_by_name(self, listing, graph, choice)

    def read(self, ref: DumpTensorRef) -> NDArray[Any]:
        """The values of a tensor whose ``format`` is this reader's name, in its stored shape.

        Raises:
            DamagedError: the file is not what it was when it was listed.
        """
        raise NotImplementedError


def named_tensor(
    place: FilePlace,
    name: str,
    dtype: DType | None,
    shape: Sequence[int] | None,
    *,
    offset: int = 0,
    nbytes: int | None = None,
    port: int | None = None,
    io: TensorIO = TensorIO.OUTPUT,
    format: str = DumpFormat.RAW,  # noqa: A002 - as in the reference
    layout: str | None = None,
    scale: float | None = None,
    zero_point: int = 0,
    statistics: Statistics | None = None,
    timestamp: int = 0,
    step: int | None = None,
    rank: int | None = None,
    alone: bool = False,
    channels_last: bool = False,
    damage: DamagedError | None = None,
) -> BareTensor:
    """The tensor *name* of a file, as a reader lists it.

    *name* is what the model calls the tensor or, with a *port*, the op whose output (or input, by
    *io*) it is. Without a *format* the elements lie as plain little-endian bytes at *offset*;
    with a reader's name that reader's ``read`` is asked. *shape* None: the graph has to tell it.
    *alone*: the file is named after its one tensor. *channels_last*: where the graph has to tell
    the shape, its second axis probably lies last; the values decide. *damage* says why the tensor
    cannot be read.
    """
    if nbytes is None:
        nbytes = place.size - offset
        if dtype is not None and shape is not None:
            nbytes = stored_bytes(dtype, prod(shape))
    levels = [f"{word}{n}" for word, n in (("step", step), ("rank", rank)) if n is not None]
    scope = "/".join(filter(None, (place.scope, *levels)))
    identity = Identity(scope, "", plain(name), io, port or 0)
    label = name if port is None else f"{name}:{port}"
    inside = "/".join((*levels, label))
    full = place.below(inside if levels else place.stem if alone else f"{place.stem}/{label}")
    ref: DumpTensorRef | DamagedError = damage or DumpTensorRef(
        *(place.path, format, name, io, port or 0, dtype),
        *(None if shape is None else tuple(shape), offset, nbytes, layout),
        timestamp=timestamp,
        statistics=statistics,
        scale=scale,
        zero_point=zero_point,
        axes_assumed=channels_last and shape is None,
    )
    if offset + nbytes > place.size and statistics is None and format == DumpFormat.RAW:
        what = f"the tensor takes bytes {offset} to {offset + nbytes}, the file has {place.size}"
        ref = DamagedError(what, offset=min(offset, place.size))
    tensor = found_tensor(full, place.path, ref, identity, timestamp, model_name=name)
    tensor.rank, tensor.step, tensor.port = rank, step, port
    return tensor


def at_step(
    dump: FoundDump, step: int | None, rank: int | None = None, files: int | None = None
) -> FoundDump:
    """*dump* as that of one step and rank, with so many of its files."""
    return replace(
        dump,
        step=dump.step if step is None else str(step),
        rank=dump.rank if rank is None else str(rank),
        files=dump.files if files is None else files,
    )
