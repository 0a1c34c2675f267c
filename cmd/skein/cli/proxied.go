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
	return proxied(a.reach(key))
}

// ProxiedTo is Proxied for the daemon at a socket, whatever the flags say.
func ProxiedTo(socket string) (http.RoundTripper, *api.Client, error) {
	return proxied(client.Options{Endpoints: []string{socket}, Once: true})
}

func proxied(o client.Options) (http.RoundTripper, *api.Client, error) {
	c, err := client.Dial(o)
	if err != nil {
		return nil, nil, Usagef("--socket: %s", err)
	}
	return c.Transport(), c.API(), nil
}
