package systemd

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// maxStatus bounds a status line, in bytes.
const maxStatus = 256

// Options configures a Notifier; the zero value speaks to the service manager
// that started the process, if any.
type Options struct {
	// Send carries one message; it reports whether anybody listens.
	// Nil: the datagram socket named by NOTIFY_SOCKET.
	Send func(message string) (bool, error)
	// WatchdogInterval is how often the manager wants to hear from
	// Watchdog; zero: what WATCHDOG_USEC says.
	WatchdogInterval time.Duration
}

// Notifier sends messages to the service manager. Its methods may be called
// from any goroutine.
type Notifier struct {
	send     func(string) (bool, error)
	watchdog time.Duration
}

// New returns a Notifier. It sends nothing.
func New(o Options) (*Notifier, error) {
	n := &Notifier{send: o.Send, watchdog: o.WatchdogInterval}
	if n.send == nil {
		n.send = func(m string) (bool, error) { return daemon.SdNotify(false, m) }
	}
	if n.watchdog < 0 {
		return nil, errors.New("service manager: negative watchdog interval")
	}
	if n.watchdog == 0 {
		var err error
		if n.watchdog, err = daemon.SdWatchdogEnabled(false); err != nil {
			return nil, fmt.Errorf("service manager: %w", err)
		}
	}
	return n, nil
}

// WatchdogInterval is how long the manager waits for Watchdog before it
// restarts the daemon; zero: for ever. Call Watchdog at least twice as often.
func (n *Notifier) WatchdogInterval() time.Duration { return n.watchdog }

// Ready says that the daemon is up, with its first status line.
func (n *Notifier) Ready(status string) error {
	return n.notify("ready", daemon.SdNotifyReady+"\n"+statusLine(status))
}

// Stopping says that the daemon is going down.
func (n *Notifier) Stopping(status string) error {
	return n.notify("stopping", daemon.SdNotifyStopping+"\n"+statusLine(status))
}

// Reloading says that the daemon reads its configuration again; Ready ends it.
// The manager tells by monotonic, the machine's monotonic clock of now, which
// request is answered.
func (n *Notifier) Reloading(monotonic time.Duration) error {
	return n.notify("reloading", fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.SdNotifyReloading, monotonic.Microseconds()))
}

// Status replaces the line that `systemctl status` shows.
func (n *Notifier) Status(status string) error {
	return n.notify("status", statusLine(status))
}

// Watchdog says that the daemon makes progress. It sends nothing if no
// watchdog is wanted.
func (n *Notifier) Watchdog() error {
	if n.watchdog == 0 {
		return nil
	}
	return n.notify("watchdog", daemon.SdNotifyWatchdog)
}

// Extend asks for d more time to start or stop, from now.
func (n *Notifier) Extend(d time.Duration) error {
	return n.notify("extend", fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds()))
}

func (n *Notifier) notify(what, message string) error {
	if _, err := n.send(message); err != nil {
		return fmt.Errorf("notify service manager, %s: %w", what, err)
	}
	return nil
}

// statusLine makes one line of any text: a line break would begin another
// assignment.
func statusLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > maxStatus {
		text = strings.ToValidUTF8(text[:maxStatus], "")
	}
	return "STATUS=" + text
}
