# The benchmark and the command line in a container: docker build -t expunge .
# For GPUs, start from an image of your CUDA version that has Python 3.11.
FROM python:3.11-slim
WORKDIR /opt/expunge
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN pip install --no-cache-dir -c constraints.txt '.[ray]'
WORKDIR /work
ENTRYPOINT ["expunge"]
