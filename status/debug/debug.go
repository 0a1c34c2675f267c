package debug

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/status/door"
	"github.com/skein-project/skein/status/openapi"
)

// Source has the files.
type Source interface {
	// Debug gathers the files about a host, empty: this one. Another host, for a user, is
	// *api.Elsewhere: the request goes there.
	Debug(ctx context.Context, actor string, node cluster.NodeID, ask api.DebugAsk) (api.DebugFiles, error)
}

// Params are what Files reads.
var Params = []openapi.Param{
	{Name: "node", Type: "", About: "of this host; empty: of the one that is asked"},
	{Name: "profile_seconds", Type: uint64(0), About: "also a profile of the processor over so long, at most 10"},
	{Name: "since_seconds", Type: uint64(0), About: "only warnings and events of so long back"},
	{Name: "log", Type: false, About: "also the event log, of the host that is asked"},
}

// Files gathers what a host knows of itself. Stacks and metrics say more than an operator
// from outside need see, so administrators ask, on the socket. Another host gathers for
// them if theirs is a sponsor; else they also sign the request as an operator, and it
// comes there with the proof, which has been checked when Files sees it.
func Files(from Source, r *http.Request) (api.DebugFiles, error) {
	who := door.Of(r.Context())
	if !who.Carried && (!who.Admin || who.TCP) {
		return api.DebugFiles{}, api.Errorf(api.CodeForbidden, "only an administrator of the host may ask for this, on its socket").
			WithHint("run it on the host itself, as root or as a member of status.group")
	}
	node, ask, err := parse(r)
	switch {
	case err != nil:
		return api.DebugFiles{}, err
	case !who.Ends.IsZero():
		// A host that passes a token on could go on asking with it.
		return api.DebugFiles{}, api.Errorf(api.CodeForbidden, "no token is good for this: sign the request").WithHint("`skein --key FILE debug bundle`")
	case who.Carried && node == "":
		return api.DebugFiles{}, api.Errorf(api.CodeForbidden, "what one host is to gather of itself no other brings elsewhere")
	}
	ask.Carried = who.Carried
	return from.Debug(r.Context(), who.Actor(), node, ask)
}

func parse(r *http.Request) (node cluster.NodeID, ask api.DebugAsk, err error) {
	for name, values := range r.URL.Query() {
		switch v := values[0]; name {
		case "profile_seconds":
			ask.Profile, err = seconds(v, api.MaxDebugProfile)
		case "since_seconds":
			ask.Since, err = seconds(v, api.MaxDebugSince)
		case "log":
			ask.Log, err = strconv.ParseBool(v)
		case "node":
			node, err = cluster.ParseNodeID(v)
		}
		if err != nil {
			return "", ask, api.Errorf(api.CodeInvalidRequest, "%s: %s", name, err)
		}
	}
	return node, ask, nil
}

// seconds reads a number of seconds, at most so many.
func seconds(text string, most time.Duration) (time.Duration, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err == nil && n > uint64(most/time.Second) {
		err = strconv.ErrRange
	}
	return time.Duration(n) * time.Second, err //nolint:gosec // 32 bits
}
