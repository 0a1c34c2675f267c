package local

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/web"
)

// demoPage serves the page of a daemon of the demo. A link that nobody opened in time, or
// at which somebody guessed, is followed by another: the demo goes on.
func demoPage(ctx context.Context, socket string, link func(string)) error {
	through, c, err := cli.ProxiedTo(socket)
	if err != nil {
		return err
	}
	defer c.Close()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var page atomic.Pointer[http.Handler]
	open := func() (*web.Gate, error) {
		gate, code := web.NewGate(time.Now)
		h, err := web.New(web.Options{API: through, Names: []string{"127.0.0.1", "localhost"}, Gate: gate})
		if err != nil {
			return nil, err
		}
		page.Store(&h)
		link(fmt.Sprintf("http://%s/#%s", l.Addr(), code))
		return gate, nil
	}
	gate, err := open()
	if err != nil {
		l.Close()
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() { // ends with ctx
		served <- web.Serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*page.Load()).ServeHTTP(w, r) }))
	}()
	late := time.NewTicker(web.CodeLife)
	defer late.Stop()
	for {
		select {
		case err := <-served: // nil: ctx has ended
			return err
		case <-gate.Shut():
		case <-late.C:
			if gate.Opened() {
				continue
			}
		}
		if gate, err = open(); err != nil {
			stop()
			<-served //nolint:errcheck // it was stopped
			return err
		}
		late.Reset(web.CodeLife)
	}
}
