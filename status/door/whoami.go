package door

import (
	"net/http"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
)

// reach says whose things p may use a right on.
func (p Peer) reach(right access.Right) access.Reach {
	if p.User == "" {
		return access.Allowed(p.Role, right)
	}
	// A token that a submitter lends as a viewer's shows the submitter's own jobs.
	return min(access.Allowed(p.Role, right), access.Allowed(p.Had, right))
}

// Whoami tells who asks as whom they were admitted.
func (d *Door) Whoami(r *http.Request) (api.Whoami, error) {
	p := Of(r.Context())
	w := api.Whoami{Role: p.Role.String(), Proof: "none", KeyID: p.Key, Rights: api.Rights{
		Look: p.reach(access.Look).String(), Read: p.reach(access.Read).String(), Use: p.reach(access.Use).String(), Operate: p.reach(access.Operate).String(),
	}}
	w.MayChange = p.reach(access.Use) != access.None || p.reach(access.Operate) != access.None
	switch {
	case access.IsLent(p.Key):
		l, _ := d.o.Tokens.Lends(p.Key, time.Now())
		w.Name, w.Proof, w.EndsAt = p.User, "access_token", new(p.Ends.UTC())
		w.MayChange = w.MayChange && l.Submit
	case !p.Ends.IsZero():
		w.Name, w.Proof, w.EndsAt = p.User, "token", new(p.Ends.UTC())
		w.MayChange = w.MayChange && d.o.Bearer == "all"
	case p.User != "":
		w.Name, w.Proof = p.User, "signature"
	case !p.TCP:
		w.Name, w.Proof, w.UID = p.Actor(), "socket", new(p.UID)
	}
	return w, nil
}
