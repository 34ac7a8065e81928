"""The public names of the KRaft controller and its decisions."""

from kcore.controller.kraft.activation import Bootstrap as Bootstrap
from kcore.controller.kraft.controller import KraftController as KraftController
from kcore.controller.kraft.kraft_context import RaftView as RaftView
from kcore.controller.kraft.kraft_context import RequestInfo as RequestInfo
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig as KraftControllerConfig
from kcore.controller.kraft.outputs import Clocks as Clocks
from kcore.controller.kraft.outputs import LogLine as LogLine
from kcore.controller.kraft.outputs import Output as Output
from kcore.controller.kraft.outputs import ReadSnapshotSlice as ReadSnapshotSlice
from kcore.controller.kraft.outputs import RequestAnswer as RequestAnswer
from kcore.controller.kraft.outputs import WorkOn as WorkOn
from kcore.controller.kraft.tasks import all_tasks as all_tasks
from kcore.errors import LevelError as LevelError
from kcore.errors import NewerReleaseError as NewerReleaseError
from kcore.metadata.image.image import ClusterImage as ClusterImage
from kcore.metadata.image.replay import replay as replay
from kcore.node.kraft.node_config import NodeConfig as NodeConfig
from kcore.replication.elect import KraftKind as KraftKind
from kcore.replication.elect import kraft_elect
from kcore.replication.elect_one import elect_one as elect_one
from kcore.replication.java_random import JavaRandom as JavaRandom
from kcore.replication.kraft_results import KraftElections as KraftElections

elect = kraft_elect
