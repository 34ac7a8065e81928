from spark.log_dirs import log_dirs as log_dirs
from workloads.fakes import fake_workload as fake_workload
