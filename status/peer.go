package status

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"
)

// peer is who asks, as the kernel says.
type peer struct {
	uid    uint32
	groups []uint32
	admin  bool // may change
	tcp    bool // came over TCP: reads only
}

// actor names p in the event log.
func (p peer) actor() string { return fmt.Sprintf("uid:%d", p.uid) }

type peerKey struct{}

func peerOf(ctx context.Context) peer {
	p, ok := ctx.Value(peerKey{}).(peer)
	if !ok {
		return peer{tcp: true}
	}
	return p
}

// identify finds out who is at the other end of conn. Whoever cannot be
// identified may not change anything.
func identify(conn net.Conn, group string) (peer, error) {
	if c, ok := conn.(*counted); ok {
		conn = c.Conn
	}
	uc, ok := conn.(*net.UnixConn)
	if !ok {
		return peer{tcp: true}, nil
	}
	p, err := credentials(uc)
	if err != nil {
		return peer{tcp: true}, fmt.Errorf("peer credentials: %w", err)
	}
	p.admin = p.uid == 0 || int(p.uid) == os.Geteuid() || inGroup(p, group)
	return p, nil
}

// inGroup looks the group up each time: it may be made while the daemon runs.
func inGroup(p peer, group string) bool {
	if group == "" {
		return false
	}
	g, err := user.LookupGroup(group)
	if err != nil {
		return false
	}
	gid, err := strconv.ParseUint(g.Gid, 10, 32)
	return err == nil && slices.Contains(p.groups, uint32(gid))
}
