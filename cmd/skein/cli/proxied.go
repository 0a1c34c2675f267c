package cli

import (
	"net/http"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/client"
)

// Proxied is what Client asks through, for requests that somebody else makes, and a
// client of the same.
func (a *App) Proxied() (http.RoundTripper, *api.Client, error) {
	key, err := a.signer(a.target())
	if err != nil {
		return nil, nil, err
	}
	c, err := client.Dial(a.reach(key))
	if err != nil {
		return nil, nil, Usagef("--socket: %s", err)
	}
	return c.Transport(), c.API(), nil
}
