"""The public names of the controller and the brokers of ZooKeeper mode."""

from kcore.broker.zk_control.broker import Broker as Broker
from kcore.controller.zk.decision import Decision as Decision
from kcore.controller.zk.events import BrokerFailed as BrokerFailed
from kcore.controller.zk.events import BrokerStarted as BrokerStarted
from kcore.controller.zk.events import ControlledShutdown as ControlledShutdown
from kcore.controller.zk.events import PreferredElection as PreferredElection
from kcore.controller.zk.zk_controller import ZkController as ZkController
from kcore.errors import LevelError as LevelError
from kcore.errors import PolicyError as PolicyError
from kcore.replication.bulk_elections import ZooKeeperElections as ZooKeeperElections
from kcore.replication.elect import ZooKeeperKind as ZooKeeperKind
from kcore.replication.elect import zookeeper_elect
from kcore.replication.elect_one import elect_one as elect_one
from kcore.replication.policy import ElectionPolicy as ElectionPolicy
from kcore.replication.policy import election_policy as election_policy

elect = zookeeper_elect
