"""PyTorch's table, whole: importing it puts all rows there are into it."""

from divergraph.execute.translate.torch import collectives as collectives
from divergraph.execute.translate.torch import elementwise as elementwise
from divergraph.execute.translate.torch import gradients as gradients
from divergraph.execute.translate.torch import indexing as indexing
from divergraph.execute.translate.torch import losses as losses
from divergraph.execute.translate.torch import matrices as matrices
from divergraph.execute.translate.torch import normalising as normalising
from divergraph.execute.translate.torch import recurrent as recurrent
from divergraph.execute.translate.torch import reductions as reductions
from divergraph.execute.translate.torch import shaping as shaping
from divergraph.execute.translate.torch import windows as windows
from divergraph.execute.translate.torch.call import ROWS as ROWS
from divergraph.execute.translate.torch.reverse import put_missing_ways_back

put_missing_ways_back()
