package door

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"
	"time"

	"github.com/skein-project/skein/access"
)

// Gate is a gateway of this host.
type Gate struct {
	// Host is what requests may be signed for besides the names of this host, as the
	// header Host has it: that of a gateway, which takes access tokens too; empty: nothing.
	Host string
	// Used remembers, beside the Door, the proofs that were used at any gateway of this name.
	// It is asked by several goroutines; nil: there is but this one.
	Used access.Used
}

// Peer is who asks, as the kernel says, or as a proof does.
type Peer struct {
	UID    uint32
	Groups []uint32
	Admin  bool // an operator by the socket
	TCP    bool // came over TCP
	Inside bool // came by an Inside; counts as TCP
	// Users is set where only users are served, and the proof of one is wanted.
	Users   bool
	Carried bool   // brought by another host
	Addr    string // over TCP: from where
	Gate    Gate   // by which it came

	Role access.Role
	User string // principal of the user who proved to ask; empty: nobody did
	Key  string // access.KeyID of the key that did, or Lent.Key of an access token
	// Only is set where the role reaches what is the peer's own: its principal.
	Only string
	// Ends is when the proof does, for streams; zero: never.
	Ends time.Time
	// Had is the role that the user had then: a token may lend less.
	Had access.Role
}

// Actor names p in the event log.
func (p Peer) Actor() string {
	if p.User != "" {
		return p.User
	}
	return fmt.Sprintf("uid:%d", p.UID)
}

type peerKey struct{}

// Of returns who asks: somebody over TCP, if nothing is known.
func Of(ctx context.Context) Peer {
	p, ok := ctx.Value(peerKey{}).(Peer)
	if !ok {
		return Peer{TCP: true}
	}
	return p
}

// With returns a context in which p asks.
func With(ctx context.Context, p Peer) context.Context { return context.WithValue(ctx, peerKey{}, p) }

// Identify finds out who is at the other end of conn. Whoever cannot be
// identified may not change anything.
func Identify(conn net.Conn, group string) (Peer, error) {
	if c, ok := conn.(*counted); ok {
		conn = c.Conn
	}
	uc, ok := conn.(*net.UnixConn)
	if _, inside := conn.(insideConn); inside {
		return Peer{TCP: true, Inside: true}, nil
	}
	if !ok {
		return Peer{TCP: true, Addr: hostOf(conn.RemoteAddr().String())}, nil
	}
	p, err := Credentials(uc)
	if err != nil {
		return Peer{TCP: true}, fmt.Errorf("peer credentials: %w", err)
	}
	p.Admin = p.UID == 0 || int(p.UID) == os.Geteuid() || inGroup(p, group)
	return p, nil
}

// inGroup looks the group up each time: it may be made while the daemon runs.
func inGroup(p Peer, group string) bool {
	if group == "" {
		return false
	}
	g, err := user.LookupGroup(group)
	if err != nil {
		return false
	}
	gid, err := strconv.ParseUint(g.Gid, 10, 32)
	return err == nil && slices.Contains(p.Groups, uint32(gid))
}

// hostOf is the address of host:port.
func hostOf(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}
