package loadbench

import (
	"context"

	"github.com/skein-project/skein/bench/suite"
)

// Secure measures what a request over TLS costs, by HTTP/1.1 and HTTP/2.
func Secure(ctx context.Context, s *suite.Suite) error {
	skein, err := ours()
	if err != nil {
		return err
	}
	for _, p := range []struct {
		kind, what string
		tool
		target suite.Target
	}{
		{secure, "HTTP/1.1 over TLS", k6(), suite.Want("ratio", ">=", 5)},
		{secure, "HTTP/1.1 over TLS", wrk(), suite.Want("ratio", ">=", 0.85)},
		{second, "HTTP/2 over TLS", k6(), suite.Want("ratio", ">=", 3)},
		{second, "HTTP/2 over TLS", h2load(), suite.Want("ratio", ">=", 0.33)},
	} {
		row := suite.Series{Name: "load: requests of a processor second, " + p.what + ", beside " + p.name, Unit: "1/s", With: p.name, Target: p.target, Digest: suite.Median}
		if p.path == "" {
			s.Skip(row.Name, "it is not installed: scripts/bench-deps")
			continue
		}
		if err := inTurn(ctx, s, skein, p.tool, run{kind: p.kind, url: "/", users: users, seconds: seconds(s)}, func(us, them outcome) {
			row.Ours = append(row.Ours, us.requests/us.cpu.Seconds())
			row.Peer = append(row.Peer, them.requests/them.cpu.Seconds())
		}); err != nil {
			return err
		}
		s.Add(row)
	}
	return nil
}
