package doctor

import (
	"bytes"
	"context"
	"errors"

	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
)

// checkMembership says whether the host of a state directory may still run: the daemon
// of one that was removed or left ended for good, and nothing on its socket says so.
func checkMembership(_ context.Context, h Host) verdict {
	id, records, err := join.LoadPast(h.Config.StateDir)
	if err != nil {
		return skipped("no member's state directory that can be read")
	}
	if _, _, err := join.Load(h.Config.StateDir); errors.Is(err, join.ErrLeft) {
		return judgeMembership(id, []member.Retired{{Node: id.Node, Cert: member.Cert{IDPub: id.IDPub}, Left: true}})
	}
	return judgeMembership(id, id.Roster(records).Retired)
}

func judgeMembership(id *join.Identity, retired []member.Retired) verdict {
	const again = "to join again, empty state_dir, get a new token, and join under another name (--name, node.name)"
	for _, r := range retired {
		if r.Node != id.Node || !bytes.Equal(r.Cert.IDPub, id.IDPub) {
			continue
		}
		v := failure("%v", join.ErrRemoved)
		switch {
		case r.Left:
			v = failure("%v", join.ErrLeft)
		case r.Reason != "":
			v = failure("%v: %s", join.ErrRemoved, r.Reason)
		}
		return v.advise("its daemon does not start any more; %s", again)
	}
	return good("%s is a member, as far as its records here go", id.Node)
}
