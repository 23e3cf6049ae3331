"""Caffe's table, whole: importing it puts all rows there are into it."""

from divergraph.execute.translate.caffe import detection as detection
from divergraph.execute.translate.caffe import losses as losses
from divergraph.execute.translate.caffe import regions as regions
from divergraph.execute.translate.caffe import shaping as shaping
from divergraph.execute.translate.caffe import windows as windows
from divergraph.execute.translate.caffe.layer import ROWS as ROWS
