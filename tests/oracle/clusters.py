"""What a cluster that runs elsewhere looks like."""

from random import Random

from kcore.hollow.fleet import cluster_of
from kcore.hollow.quorum import Quorum
from kcore.metadata.image import ClusterImage


async def image_of(address: str) -> ClusterImage:
    """By the metadata log of the controllers, one of which is at `address`."""
    quorum = Quorum([address], random=Random())
    await quorum.open()
    try:
        return await cluster_of(quorum, Random())
    finally:
        await quorum.close()
