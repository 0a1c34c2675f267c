//go:build !linux

package slice

import (
	"syscall"
	"time"
)

// Clock is the time of day here: hosts run Linux.
func Clock() int64 { return time.Now().UnixNano() }

func behave() {}

func giveWay() {}

func attributes() *syscall.SysProcAttr { return nil }
