# docker build -t megareward .                               a small image for CPUs
# docker build -t megareward --build-arg TORCH=cu126 .       with CUDA; run it with `docker run --gpus all`
# docker run --rm -v "$PWD/runs:/data/runs" megareward play
FROM python:3.12-slim
ARG TORCH=cpu
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY megareward megareward
RUN pip install --no-cache-dir --index-url "https://download.pytorch.org/whl/${TORCH}" "torch>=2.6" \
 && pip install --no-cache-dir ".[figures]"
WORKDIR /data
ENTRYPOINT ["megareward"]
CMD ["--help"]
