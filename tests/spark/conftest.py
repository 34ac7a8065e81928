from workloads.fakes import fake_workload as fake_workload
