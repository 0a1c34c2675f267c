//go:build !linux

package executor

import (
	"errors"
	"os/exec"
)

// cgroups exist on Linux only.
type cgroups struct{ controllers []string }

type cgroup struct{}

func openCgroups(string) (*cgroups, error) { return nil, errors.New("cgroups exist on Linux only") }

func (*cgroups) limits(string) bool { return false }

func (*Exec) group(uint64) (*cgroup, error) { return nil, nil } //nolint:nilnil // no group is a group

func (*cgroup) killedForMemory() bool { return false }

func (*Exec) removeGroup(*cgroup) {}

func supervised(*exec.Cmd, *cgroup) {}
