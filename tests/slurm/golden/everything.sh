#!/bin/bash
#SBATCH --job-name=train-r261116-091233-k9qd4x
#SBATCH --output=slurm-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --gres=gpu:a100:4,nvme:1
#SBATCH --mem-per-gpu=60G
#SBATCH --time=62
#SBATCH --signal=USR1@240
#SBATCH --partition=gpu,long
#SBATCH --account=research
#SBATCH --qos=urgent
#SBATCH --constraint='a100&nvlink'
#SBATCH --reservation=course
#SBATCH --nodelist='n[1-2]'
#SBATCH --exclude=n7
#SBATCH --exclusive
#SBATCH --comment="two words"

told=0
trap 'told=1' TERM
room="$SLURM_SUBMIT_DIR"
agent="${room%/slurm/*}/agent/0123456789abcdef"
module load cuda/12.4
module load gcc
export NCCL_DEBUG=INFO
ulimit -c 0
GOFER_HOSTS="$(scontrol show hostnames "$SLURM_JOB_NODELIST")"
export GOFER_HOSTS
GOFER_SLURM="$(env -0 | grep -z '^SLURM_' | tr '\0' '\n')"
export GOFER_SLURM
cd "$agent" || exit 1
srun --overlap --mem=0 --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=32 --mpi=none --kill-on-bad-exit=0 --wait=0 --export=ALL '/opt/python 3/bin/python3' -E -s -m gofer.node.slurm.node "$room"
'/opt/python 3/bin/python3' -E -s -m gofer.node.slurm.end "$room" "$?" "$told"
