package clock

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// kernelTimer waits with a descriptor of the kernel's: the runtime's timers wake up
// half a millisecond late where nothing else happens.
type kernelTimer struct{ f *os.File }

// New returns a timer: that of the kernel, or with plain that of the runtime, as tests have it.
func New(plain bool) (Timer, error) {
	if plain {
		return newPlainTimer(), nil
	}
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	return &kernelTimer{os.NewFile(uintptr(fd), "timerfd")}, nil
}

// Until implements Timer.
func (t *kernelTimer) Until(at time.Time) bool {
	d := time.Until(at)
	if d <= 0 {
		return true
	}
	raw, err := t.f.SyscallConn()
	if err != nil {
		return false
	}
	set := error(nil)
	err = raw.Control(func(fd uintptr) {
		set = unix.TimerfdSettime(int(fd), 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
	})
	if err != nil || set != nil {
		return false
	}
	var expirations [8]byte
	_, err = t.f.Read(expirations[:])
	return err == nil
}

// End implements Timer.
func (t *kernelTimer) End() { t.f.Close() }
