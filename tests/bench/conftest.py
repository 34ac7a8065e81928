from cli.invoking import in_a_folder_with_a_plan as in_a_folder_with_a_plan
from workloads.fakes import fake_workload as fake_workload
