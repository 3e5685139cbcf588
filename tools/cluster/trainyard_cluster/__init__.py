"""A real Kubernetes on one machine, for tests and for trying things out: without Docker, and it leaves nothing behind.

`scripts/cluster` is its command line. A *control plane* (etcd, kube-apiserver, kube-controller-manager) listens on the loopback and
needs no root. A *whole cluster* adds scheduler, kubelet, containerd, a bridge and DNS, all inside network, mount and process
namespaces of its own, so that the kernel ends all of it together.
"""
