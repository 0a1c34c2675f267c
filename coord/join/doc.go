// Package join makes a host part of a cluster: the identity files of a state
// directory, the first host's keys (Init), invites and their tokens, the
// sponsor that admits, renews and removes hosts, and the client that joins.
//
// A newcomer knows a token: the cluster's root key, a sponsor's addresses and
// identity key, and a random secret. It speaks TLS 1.3 pinned to that key and
// posts a request twice, which proves the secret, its identity key and its
// WireGuard key; a header proves before all else that the token is as the sponsor
// made it (token.Token.Proof). To the first, which asks, the sponsor shows by
// records of the cluster that it is the token's, and changes nothing. The second
// confirms that the newcomer has checked them: the sponsor certifies it at an
// address of the sponsor's choice, writes the use of the invite down, tells the
// daemon, and answers. The certificate comes after the use is spent, not before,
// since none can be taken back: else one invite would give as many as are asked
// for. The same key with the same invite gets the same answer, so that a crash
// anywhere is cured by trying again:
//
//	newcomer ends before it confirms     nothing is spent, nothing is kept
//	sponsor ends before the use is down  nothing is spent, the newcomer asks again
//	either ends after that               the newcomer asks again, and gets what was spent for it
//	newcomer never comes back            it is a member that is dead: an operator removes it
//
// A newcomer of a version without the first step sends one request without that
// header, and is admitted by it; a sponsor of such a version takes the first request
// for all and admits. So both join as they did before, and a changed root key still
// spends a use there.
//
// Every failure is one identical 404; only the sponsor's log names the reason.
//
// Through Tor a newcomer reaches the sponsor's own onion service, or an onion
// address that the whole cluster serves. There any host's door.Keeper, seeing by
// the invite's id whose it is, passes the connection on to the sponsor, and the
// newcomer's TLS runs through. What is wrong there is one 404 after one time;
// guesses reach no sponsor.
//
// A sponsor also renews and revokes members. Any sponsor renews any member at
// its address; where the root key lies, a member becomes a sponsor while there
// are fewer than three, and the host itself in any case. The node id of a host that left or was removed stays
// taken until its revocation is forgotten, some two months: other hosts verify
// its events by its key. A host that comes back takes another node id.
//
// Files of a state directory (mode 0600, replaced atomically, fsynced, with a
// checksum; what becomes of a damaged one is in internal/durable/catalog.go):
//
//	identity.json  cluster, node id, keys: the directory belongs to a cluster
//	root.key       the root key, on the first host, may be moved offline
//	records.json   membership records (member.Records), then package coord's
//	invites.json   invites and what was answered to whom
//	boot, epoch    counters, written before a value is used
//	pending.json   keys of a join that was not answered yet
//	wg-next.json   the WireGuard key that comes next
//	left           the host is no longer a member: Load refuses the directory, LoadPast reads it
//
// The caller holds the lock of the state directory. Secrets are of type
// token.Secret, which prints [redacted]; a token or secret never appears in an error
// or a log line.
//
// Non-goals: the mesh, gossip, who needs to know a new member.
//
// Goroutines: none. Admissions are serialised: an invite's use is durable before its
// answer leaves.
package join
