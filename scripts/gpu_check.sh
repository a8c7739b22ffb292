#!/bin/sh
# What a GPU has to show before its fast paths are trusted: recorded graphs, fused kernels, two CUDA streams, groups.
# About a minute. Further words go to pytest: scripts/gpu_check.sh -k groups
set -e
cd "$(dirname "$0")/.."
python3 -c 'import torch; assert torch.cuda.is_available(), "torch sees no GPU"; print(torch.cuda.get_device_name())'
exec python3 -m pytest -p no:cacheprovider --durations=5 \
  tests/gpu tests/unit/ppo/test_update.py tests/unit/control/test_kernels.py tests/unit/control/test_fused_cells.py \
  tests/unit/control/test_replay.py "$@"
