"""The public names of a cluster's state as columns, and of the values that are computed from it."""

from kcore.errors import PlacementError as PlacementError
from kcore.errors import TableError as TableError
from kcore.metadata.image.delta import MetadataDelta as MetadataDelta
from kcore.metadata.image.image import ClusterImage as ClusterImage
from kcore.metadata.image.image_tables import ImageTable as ImageTable
from kcore.metadata.image.replay import replay as replay
from kcore.metadata.table.broker_registration import BrokerRegistration as BrokerRegistration
from kcore.metadata.table.broker_table import BrokerTable as BrokerTable
from kcore.metadata.table.broker_table import Endpoint as Endpoint
from kcore.metadata.table.changes import PartitionChanges as PartitionChanges
from kcore.metadata.table.changes import UnwrittenChanges as UnwrittenChanges
from kcore.metadata.table.directory_table import DirectoryTable as DirectoryTable
from kcore.metadata.table.partition_state import PartitionState as PartitionState
from kcore.metadata.table.partition_table import PartitionTable as PartitionTable
from kcore.metadata.table.topic_table import TopicTable as TopicTable
from kcore.replication.divergence import end_offset_for_epoch as end_offset_for_epoch
from kcore.replication.divergence import truncation_offsets as truncation_offsets
from kcore.replication.epochs import EpochTables as EpochTables
from kcore.replication.placement import place as place
from kcore.types import Uuid as Uuid
