package topo

// Resolve decides which key counts of each peer that announces another one,
// and makes the other a peer of its own:
//
//   - Before the host changes: Key has the addresses. Next is a peer without
//     any, marked with Follows, so that the host's first handshake with it is
//     answered.
//   - A live session with Next proves that the host has changed, whoever says
//     so or not: Next is the peer, and Key is none any more. Should the host
//     come back with the old key, as one that crashed on the way might, the
//     session runs out and Key has the addresses again.
//
// A key that another peer has is no Next. Resolve of what it returns changes
// nothing.
func Resolve(want Desired, seen Observed) Desired {
	taken := make(map[Key]bool, len(want.Peers))
	taken[want.Key] = true
	twofold := false
	for _, p := range want.Peers {
		taken[p.Key] = true
		twofold = twofold || !p.Next.IsZero()
	}
	if !twofold {
		return want
	}
	live := make(map[Key]bool, len(seen.Peers))
	for _, p := range seen.Peers {
		live[p.Key] = p.Live()
	}
	peers := make([]Peer, 0, 2*len(want.Peers))
	var staged []Peer
	for _, p := range want.Peers {
		next := p.Next
		p.Next = Key{}
		if !next.IsZero() && !taken[next] {
			taken[next] = true
			if live[next] {
				p.Key = next
			} else {
				staged = append(staged, Peer{Node: p.Node, Key: next, Follows: p.Key})
			}
		}
		peers = append(peers, p)
	}
	want.Peers = append(peers, staged...)
	return want
}
