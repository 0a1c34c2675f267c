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
	s := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*page.Load()).ServeHTTP(w, r) }),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10,
	}
	served := make(chan struct{})
	var ended error                                   // set when served is closed
	go func() { ended = s.Serve(l); close(served) }() // ends with Close
	late := time.NewTicker(web.CodeLife)
	defer late.Stop()
	for {
		again := false
		select {
		case <-ctx.Done():
			_ = s.Close() // Ctrl-C is how it ends
			<-served
			return nil
		case <-served:
			return fmt.Errorf("serve the page: %w", ended)
		case <-gate.Shut():
			again = true
		case <-late.C:
			again = !gate.Opened()
		}
		if !again {
			continue
		}
		if gate, err = open(); err != nil {
			_ = s.Close() // it ends all the same
			<-served
			return err
		}
		late.Reset(web.CodeLife)
	}
}
