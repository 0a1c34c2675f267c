package offline

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/join/door"
	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/mesh/device"
)

// hinted is an error with a hint, which the terminal shows on a line of its own.
type hinted struct {
	error
	hint  string
	final bool
}

// Hint returns what to do next.
func (e *hinted) Hint() string { return e.hint }

// Final reports whether a start would always fail the same way, so that a service
// manager should not try again.
func (e *hinted) Final() bool { return e.final }

// Unwrap returns the error itself.
func (e *hinted) Unwrap() error { return e.error }

// Advise adds a hint on what to do next to the errors that an operator may meet when
// a daemon starts, and says of those that no other start mends that they are final.
// Other errors with a hint, and unknown ones, are returned as they are.
func Advise(err error) error {
	err = advise(err)
	if !isLasting(err) {
		return err
	}
	out := &hinted{error: err, final: true}
	if h, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok {
		out.hint = h.Hint()
	}
	return out
}

func advise(err error) error {
	if _, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); err == nil || ok {
		return err
	}
	if silent, ok := errors.AsType[*join.UnansweredError](err); ok && !errors.Is(err, door.ErrDoor) {
		return &hinted{error: err, hint: unansweredHint(silent)}
	}
	for _, h := range []struct {
		err  error
		hint string
	}{
		{durable.ErrLocked, "another daemon uses this directory; give each daemon its own state_dir, mesh.listen and status.socket"},
		{join.ErrNotInitialised, "the first host of a cluster: 1. `skein init`, 2. `skein run`, 3. `skein status`; another host: `skein token create --out FILE` at a member, and with FILE here `skein run --join @FILE`"},
		{join.ErrInitialised, "start it with `skein run`; for a new cluster choose another state_dir"},
		{join.ErrLeft, "to join a cluster again, empty state_dir or choose another, get a token there, and run `skein run --join @FILE`; in the same cluster under another name (--name, node.name), as the old one stays taken for weeks"},
		{join.ErrRemoved, "who removed it, and why, is in the event log of the others; to join again, empty state_dir, get a new token, and join under another name (--name, node.name), as the old one stays taken for weeks"},
		{join.ErrOtherCluster, "choose another state_dir, or remove this one if its cluster is gone"},
		{join.ErrNoRoot, "it lies on the first host, or was taken away with `skein root export --remove`: `skein root import FILE` puts it back"},
		{join.ErrRefused, refusedHint},
		{join.ErrAnswer, "the token was changed on its way, or what answers is not of its cluster; nothing was spent unless it admitted this host at once: get the token again, by a way that nobody else writes to"},
		{token.ErrToken, "give the whole text that `skein token create` printed, as one line; a token that was changed is of no use: create another"},
		{token.ErrExpired, "create another with `skein token create` on a sponsor; if it is fresh, the clock of this host is wrong"},
		{join.ErrNeedTor, "set tor.enabled, or get a token that names other addresses"},
		{door.ErrDoor, "the sponsor that made the invite is out of reach of the hosts behind that address, or the invite is over: try again, or get another token"},
		{device.ErrPermission, "start the daemon by its unit or as root, or set mesh.backend to \"netstack\", which needs no rights"},
		{device.ErrForeign, "set mesh.interface to another name, or remove that device if nothing needs it; `skein net cleanup` removes one that an earlier skein left"},
		{device.ErrOverlap, "give the other use another network; the cluster's is fixed by `skein init --network`"},
		{device.ErrPortInUse, "choose another mesh.listen; `ss -lnup` shows who has the port"},
		{syscall.EADDRINUSE, "choose another port: mesh.listen (UDP) and join.listen (TCP)"},
		{syscall.EACCES, "give the user access to state_dir and to the directory of status.socket, or set others in the configuration"},
	} {
		if errors.Is(err, h.err) {
			return &hinted{error: err, hint: h.hint, final: isFinal(err)}
		}
	}
	return err
}

// refusedHint names what a sponsor refuses for, the likeliest first, with where to
// look. That the token is over by its own text is found before it is asked.
const refusedHint = "on the sponsor, `journalctl -u skein -g 'join request refused'` says which of these it was: " +
	"(1) the invite is used up or revoked (`skein token ls` there), or over by the sponsor's clock; " +
	"(2) another host has the name, or one had it that left or was removed (`skein members --all` there): take another, --name or node.name; " +
	"(3) the clock here is more than a minute ahead of the sponsor's or five behind (`date -u` on both); " +
	"(4) the token was changed on its way: copy it again; " +
	"(5) many requests from this address were refused just before: wait a minute"

// unansweredHint says where to look for a sponsor that does not answer.
func unansweredHint(e *join.UnansweredError) string {
	direct := slices.DeleteFunc(slices.Clone(e.Addrs), token.IsOnion)
	if len(direct) == 0 {
		return "is the sponsor up, and its tor? `--timeout 1h` asks for longer, and another token may name other addresses"
	}
	at := "TCP " + strings.Join(direct, ", TCP ")
	if e.Cut() {
		return "something answers on " + at + " and closes the connection: is it the sponsor's join.listen? A sponsor that restarts, or is flooded, does that too: `--timeout 10m` asks for longer"
	}
	if errors.Is(e, syscall.ECONNREFUSED) {
		return "the machine answers, and nothing listens on " + at + ": does the sponsor's daemon run there, with that join.listen? `--timeout 10m` waits for it"
	}
	return "joins need TCP, not only UDP: does each firewall between here and there let this host reach " + at +
		", and does the sponsor's daemon run? `--timeout 10m` asks for longer"
}

// isLasting reports whether a daemon that starts once more would end in the same
// way: with this token, or with this log, it never runs.
func isLasting(err error) bool {
	if _, damaged := errors.AsType[*segment.CorruptError](err); damaged {
		return true
	}
	return slices.ContainsFunc([]error{
		join.ErrRefused, join.ErrAnswer, join.ErrOtherCluster, join.ErrNeedTor, token.ErrToken, token.ErrExpired,
	}, func(e error) bool { return errors.Is(err, e) })
}

// isFinal reports whether only an operator can help: the host is not a member.
func isFinal(err error) bool {
	return errors.Is(err, join.ErrLeft) || errors.Is(err, join.ErrRemoved) || errors.Is(err, join.ErrNotInitialised)
}

// stopFirst is the hint where the daemon holds the lock of the state directory.
const stopFirst = "the daemon runs: stop it first, `systemctl stop skein`"

// adviseCommand is Advise for commands that work without the daemon.
func adviseCommand(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &hinted{error: err, hint: "become root, or the user of the daemon"}
	case errors.Is(err, fs.ErrExist):
		return &hinted{error: err, hint: "name a file that does not exist yet"}
	case errors.Is(err, join.ErrNotInitialised): // whoever asks for what a member has is about to begin nothing
		return &hinted{error: err, hint: "this needs the state directory of a member: name it with --state-dir, or its configuration with --config", final: true}
	}
	return advise(err)
}
