#!/bin/bash
#SBATCH --job-name=train-r261116-091233-k9qd4x
#SBATCH --output=slurm-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --gres=gpu:4

told=0
trap 'told=1' TERM
room="$SLURM_SUBMIT_DIR"
agent="${room%/slurm/*}/agent/0123456789abcdef"
GOFER_HOSTS="$(scontrol show hostnames "$SLURM_JOB_NODELIST")"
export GOFER_HOSTS
GOFER_SLURM="$(env -0 | grep -z '^SLURM_' | tr '\0' '\n')"
export GOFER_SLURM
cd "$agent" || exit 1
srun --overlap --mem=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=4 --mpi=none --kill-on-bad-exit=0 --wait=0 --export=ALL apptainer exec --nv --bind "${room%/slurm/*}" --bind '/shared/the store' --bind /data --pwd "$agent" '/images/torch 2.sif' python3 -E -s -m gofer.node.slurm.node "$room"
python3 -E -s -m gofer.node.slurm.end "$room" "$?" "$told"
