"""One launch of one workload, measured. The contract is docs/gate-workloads.md."""
