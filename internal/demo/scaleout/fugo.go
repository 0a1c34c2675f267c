package scaleout

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/skein-project/skein/gateway/centrifugo"
	"github.com/skein-project/skein/internal/balance"
	"github.com/skein-project/skein/internal/demo"
	"github.com/skein-project/skein/internal/servertest"
	"github.com/skein-project/skein/internal/wait"
)

// fugo is a Centrifugo, which keeps the connections of the outside workers, and the balancer
// through which it asks the gateways.
type fugo struct {
	*servertest.Centrifugo
	at     centrifugo.Server
	asks   map[int]string // where it asks each gateway
	secret string         // file
	front  *balance.Balancer
	back   time.Time // when it was started again
}

// newFugo says where everything will be, and makes the secrets.
func newFugo(s *demo.Stage) (*fugo, error) {
	f := &fugo{asks: map[int]string{}, secret: filepath.Join(s.Dir(), "proxy.secret")}
	f.at.KeyFile = filepath.Join(s.Dir(), "api.key")
	if err := errors.Join(writeSecret(f.secret, rand.Text()), writeSecret(f.at.KeyFile, rand.Text())); err != nil {
		return nil, err
	}
	for _, to := range []func(string){
		func(at string) { f.at.API = "http://" + at + "/api" },
		func(at string) { f.at.Clients = "ws://" + at + "/connection/websocket" },
		func(at string) { f.asks[1] = at },
		func(at string) { f.asks[2] = at },
	} {
		port, err := s.FreePort()
		if err != nil {
			return nil, err
		}
		to(fmt.Sprintf("127.0.0.1:%d", port))
	}
	return f, nil
}

// settings are what a gateway is told of it: the rest of the table gateway, and another one.
func (f *fugo) settings(i int) string {
	return fmt.Sprintf("push = \"centrifugo\"\ninternal_listen = %q\n[centrifugo]\napi_url = %q\nws_url = %q\napi_key_file = %q\nsecret_file = %q\n",
		f.asks[i], f.at.API, f.at.Clients, f.at.KeyFile, f.secret)
}

// stop ends what was started.
func (f *fugo) stop() {
	if f.Centrifugo != nil {
		_ = f.Stop() // it may have ended
	}
	if f.front != nil {
		f.front.Close()
	}
}

// startFugo starts a Centrifugo with what the program prints for it.
func (w *show) startFugo(ctx context.Context) (err error) {
	f := w.fugo
	defer func() {
		if err != nil {
			f.stop()
		}
	}()
	if f.front, err = balance.Open(ctx, "127.0.0.1:0", f.asks[1], f.asks[2]); err != nil {
		return err
	}
	file, gateway := filepath.Join(w.s.Dir(), "centrifugo.json"), w.s.Hosts()[1]
	args := []string{"gateway", "centrifugo-config", "--config", gateway.Config(), "--socket", gateway.Socket(), "--ask-url", "http://" + f.front.Addr(), "--out", file}
	if text, err := exec.CommandContext(ctx, w.o.Exe, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("skein %s: %w: %s", strings.Join(args, " "), err, text)
	}
	if f.Centrifugo, err = servertest.StartCentrifugo(ctx, w.s.Dir(), file); err != nil {
		return err
	}
	what, _, err := centrifugo.Examine(ctx, f.at)
	if err != nil {
		return err
	}
	w.s.Say("%s; it was started with what `skein gateway centrifugo-config` prints, and keeps the connections of outside workers", what)
	return nil
}

// loseFugo kills Centrifugo, and starts it again after outside workers have gone on without it.
func (w *show) loseFugo(ctx context.Context) error {
	if _, err := w.far(ctx, fugoAt, "Centrifugo is killed"); err != nil {
		return err
	}
	at := time.Now()
	if err := w.fugo.Kill(); err != nil {
		return fmt.Errorf("kill Centrifugo: %w", err)
	}
	w.s.Say("SIGKILL to Centrifugo: outside workers ask by HTTP")
	if err := wait.For(ctx, w.o.Down); err != nil {
		return err
	}
	before, err := w.count(ctx)
	if err != nil {
		return err
	}
	if _, err := w.goOn(ctx, before, "outside workers go on by HTTP"); err != nil {
		return err
	}
	if err := w.fugo.Start(ctx); err != nil {
		return err
	}
	w.fugo.back = time.Now()
	w.s.Say("Centrifugo was started again after %.1f s, in which results of outside workers counted; they try it again within a minute", w.fugo.back.Sub(at).Seconds())
	return nil
}

// backAtFugo waits until outside workers have found Centrifugo again.
func (w *show) backAtFugo(ctx context.Context) error {
	if err := w.connected(ctx, "outside workers are connected again"); err != nil {
		return err
	}
	w.result.Centrifugo = time.Since(w.fugo.back)
	w.s.Say("all %d outside workers are connected to Centrifugo again", w.o.Workers)
	return nil
}

// connected waits until each outside worker has a connection.
func (w *show) connected(ctx context.Context, what string) error {
	return w.until(ctx, what, func() error {
		n, err := w.fugo.at.Connections(ctx)
		if err == nil && n < w.o.Workers {
			err = fmt.Errorf("%d of %d connections are open", n, w.o.Workers)
		}
		return err
	})
}
