#!/usr/bin/env bash
# A protocol of the benchmark on a SLURM cluster: Ray on every node, one command on the first.
# A killed job resumes when it is submitted again. All nodes have to see the folder.
#
#   sbatch --nodes 4 --gpus-per-node 2 examples/bench_slurm.sh paper /shared/expunge \
#       --data /shared/data --gpus 0.5
#
#SBATCH --job-name=expunge
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=24:00:00
set -euo pipefail
protocol="$1" folder="$2"
shift 2

first="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)"
export RAY_ADDRESS="$first:6379"
export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}" # srun does not take it from sbatch
on="srun --overlap --ntasks-per-node=1"
trap 'kill $(jobs -p)' EXIT
$on --nodes=1 --nodelist="$first" ray start --head --port=6379 --block &
until ray status >/dev/null 2>&1; do sleep 2; done
if [ "$SLURM_JOB_NUM_NODES" -gt 1 ]; then
    $on --nodes=$((SLURM_JOB_NUM_NODES - 1)) --exclude="$first" \
        ray start --address="$RAY_ADDRESS" --block &
fi

expunge bench run "$protocol" --engine ray --address "$RAY_ADDRESS" \
    --store "$folder/store" --out "$folder/results" "$@"
