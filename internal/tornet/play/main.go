package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/skein-project/skein/internal/tornet"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	say := func(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }
	say("starting a private Tor network, half a minute or so")
	n, err := tornet.Start(ctx, tornet.Options{Log: say})
	if err != nil {
		return err
	}
	defer func() { _ = n.Close() }()
	backend, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "served over a private Tor network\n")
	})}
	go func() { _ = server.Serve(backend) }()
	defer func() { _ = server.Close() }()
	service := filepath.Join(n.Dir(), "service")
	host, err := n.Launch("host", "HiddenServiceDir "+service, "HiddenServicePort 80 "+backend.Addr().String())
	if err != nil {
		return err
	}
	socks, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	port := socks.Addr().String()
	_ = socks.Close()
	client, err := n.Launch("client", "SocksPort "+port)
	if err != nil {
		return err
	}
	for _, t := range []*tornet.Tor{host, client} {
		if err := t.AwaitBootstrap(ctx); err != nil {
			return err
		}
	}
	name, err := os.ReadFile(filepath.Join(service, "hostname"))
	if err != nil {
		return err
	}
	onion := strings.TrimSpace(string(name))
	if err := awaitServed(ctx, client, onion); err != nil {
		return err
	}
	torrc := filepath.Join(n.Dir(), "torrc")
	if err := os.WriteFile(torrc, []byte(strings.Join(n.Torrc(), "\n")+"\n"), 0o600); err != nil {
		return err
	}
	describe(say, n, client, port, onion, torrc)
	<-ctx.Done()
	say("ending the network")
	return nil
}

// awaitServed tries until the service's descriptor is where clients look.
func awaitServed(ctx context.Context, client *tornet.Tor, onion string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		conn, err := client.Dial(ctx, "play", onion+":80")
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("await the service: %w", err)
		case <-time.After(time.Second):
		}
	}
}

func describe(say func(string, ...any), n *tornet.Network, client *tornet.Tor, socks, onion, torrc string) {
	say("\nrunning: %d authorities, %d relays, one service, one client; logs in %s", len(n.Authorities()), len(n.Relays()), n.Dir())
	say("\nfetch the service:\n  curl --socks5-hostname %s http://%s/", socks, onion)
	say("\nthe client's control port and its cookie:\n  unix:%s\n  %s/control_auth_cookie", client.ControlSocket(), client.Dir())
	say("\nstart a tor of your own in this network: these lines, then your own\n  tor -f your-torrc --defaults-torrc %s", torrc)
	say("\na time period lasts %s, a consensus %s; interrupt to end everything", tornet.Period, tornet.VotingInterval)
}
