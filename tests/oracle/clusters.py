"""The shape of a cluster that runs elsewhere."""

from random import Random

from kcore.measure.hollow.fleet import cluster_of
from kcore.measure.hollow.quorum_client import Quorum
from kcore.metadata.image.image import ClusterImage


async def image_of(address: str) -> ClusterImage:
    """By the metadata log of the controllers, one of which is at `address`."""
    quorum = Quorum([address], random=Random())
    await quorum.open()
    try:
        return await cluster_of(quorum, Random())
    finally:
        await quorum.close()
