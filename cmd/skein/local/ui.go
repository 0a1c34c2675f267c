package local

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/web"
)

type uiOptions struct {
	open, readOnly, plain bool
	port                  int
	hosts                 []string
}

func uiCommand(a *cli.App) *cobra.Command {
	var o uiOptions
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "The cluster as a page in a browser on this machine",
		Long: "Serves the page on 127.0.0.1 for as long as this command runs, and asks the daemon as\n" +
			"the user who runs it. The link that it prints works once, within two minutes; with\n" +
			"/jobs after it, or the name of another page, it begins there. A browser on another\n" +
			"machine reaches it through ssh -L. With --plain it is tables, for browsers without\n" +
			"script; whoever knows their link may read, and nobody act.",
		Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return serveUI(cmd.Context(), a, o) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.open, "open", false, "open the page in the browser of this desktop")
	f.IntVar(&o.port, "port", 0, "port on 127.0.0.1 (default any that is free)")
	f.BoolVar(&o.readOnly, "read-only", false, "a page that changes nothing")
	f.BoolVar(&o.plain, "plain", false, "pages without script, which change nothing; the link is good until the command ends")
	f.StringSliceVar(&o.hosts, "host", nil, "another name under which the page may be asked for, such as that of a proxy")
	return cmd
}

func serveUI(ctx context.Context, a *cli.App, o uiOptions) error {
	if o.port < 0 || o.port > 65535 {
		return cli.Usagef("--port is %d, want 0 to 65535", o.port)
	}
	names := []string{"127.0.0.1", "localhost"}
	for _, h := range o.hosts {
		if h == "" || strings.ContainsAny(h, " /:*@") {
			return cli.Usagef("--host is %q, want a name without a port", h)
		}
		names = append(names, strings.ToLower(h))
	}
	through, c, err := a.Proxied()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := answers(ctx, a, c.Raw); err != nil {
		return err
	}
	gate, secret := web.NewGate(time.Now)
	path, life := "/#"+secret, "works once, within "+plainly(web.CodeLife)
	if o.plain {
		gate, secret = web.NewStanding()
		path, life = "/"+secret+"/p/overview", "is a secret: whoever has it may read"
	}
	h, err := web.New(web.Options{API: through, Names: names, Gate: gate, Plain: o.plain, ReadOnly: o.readOnly})
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.port)))
	if err != nil {
		return cli.Failf(cli.ExitFailed, "listen for the browser: %s", err).WithHint("choose another --port, or leave it out")
	}
	at := l.Addr().String()
	link := "http://" + at + path
	if _, err := fmt.Fprintln(a.Out, link); err != nil {
		l.Close()
		return err
	}
	a.Note("the link %s; the page ends with this command (Ctrl-C)", life)
	if line := tunnel(a.Getenv("SSH_CONNECTION"), at); line != "" {
		a.Note("from your machine: %s", line)
	}
	if o.open {
		forget, err := openPage(ctx, link)
		if err != nil {
			a.Note("no browser was opened: %s", err)
		} else {
			defer forget()
		}
	}
	return until(ctx, web.Server(h), l, gate)
}

// answers asks the daemon once: a page of nothing helps nobody.
func answers(ctx context.Context, a *cli.App, raw func(context.Context, string) ([]byte, error)) error {
	ctx, cancel := a.Limited(ctx)
	defer cancel()
	_, err := raw(ctx, "/v1/version")
	return err
}

// until serves until the context ends, nobody opened the link in time, or somebody
// guesses codes.
func until(ctx context.Context, s *http.Server, l net.Listener, gate *web.Gate) error {
	served := make(chan struct{})
	var ended error                                   // set when served is closed
	go func() { ended = s.Serve(l); close(served) }() // ends with Close
	late := time.NewTimer(web.CodeLife)
	defer late.Stop()
	var why error
	for why == nil {
		select {
		case <-ctx.Done():
			_ = s.Close() // Ctrl-C is how it ends
			<-served
			return nil
		case <-served:
			return fmt.Errorf("serve the page: %w", ended)
		case <-gate.Shut():
			why = cli.Failf(cli.ExitForbidden, "too many wrong codes: somebody on this machine guesses").WithHint("run `skein ui` again")
		case <-late.C:
			if !gate.Opened() {
				why = cli.Failf(cli.ExitTimeout, "nobody opened the link within %s", plainly(web.CodeLife)).WithHint("run `skein ui` again")
			}
		}
	}
	// The last refusal is still on its way.
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := s.Shutdown(wait); err != nil {
		_ = s.Close() // it has waited
	}
	<-served
	return why
}

func plainly(d time.Duration) string { return fmt.Sprintf("%d minutes", int(d.Minutes())) }

// tunnel is the command that brings the page to the machine from where ssh came; empty
// without ssh.
func tunnel(connection, at string) string {
	parts := strings.Fields(connection) // client, its port, this host, its port
	if len(parts) != 4 {
		return ""
	}
	if _, err := strconv.Atoi(parts[3]); err != nil || net.ParseIP(parts[2]) == nil {
		return ""
	}
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		return ""
	}
	line := fmt.Sprintf("ssh -N -L %s:%s", port, at)
	if parts[3] != "22" {
		line += " -p " + parts[3]
	}
	return line + " " + parts[2]
}

// openPage has the desktop open link. Arguments of programs are seen by every user
// of the machine, so the link travels in a file.
func openPage(ctx context.Context, link string) (forget func(), err error) {
	f, err := os.CreateTemp("", "skein-*.html") // 0600
	if err != nil {
		return nil, err
	}
	forget = func() { _ = os.Remove(f.Name()) } // its code is worth nothing by then
	_, err = fmt.Fprintf(f, "<!doctype html><meta http-equiv=refresh content=\"0;url=%s\"><title>skein</title>\n", html.EscapeString(link))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = exec.CommandContext(ctx, "xdg-open", f.Name()).Run()
	}
	if err != nil {
		forget()
		return nil, err
	}
	return forget, nil
}
