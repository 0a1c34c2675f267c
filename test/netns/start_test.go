//go:build linux

package netns_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/nstest"
)

// refusal is a daemon that must not start.
type refusal struct {
	name  string
	spoil func(d *daemon) // makes the host unfit
	mend  func(d *daemon)
	says  []string // parts of what the operator reads
}

// TestStartRefused: what stands in the way is named, nothing of somebody
// else's is touched, and the daemon starts once it is gone.
func TestStartRefused(t *testing.T) {
	parallel(t)
	f := newFleet(t, backendTUN, 1)
	d := f.all[0]
	if out, code := d.skein("init", "--config", d.config(), "--cluster", "test"); code != 0 {
		t.Fatalf("init: %s", out)
	}
	d.Exec("ip", "link", "add", "other", "type", "bridge")
	for _, c := range []refusal{
		{
			name:  "address in use",
			spoil: func(d *daemon) { d.Exec("ip", "addr", "add", "10.86.7.1/24", "dev", "other") },
			mend:  func(d *daemon) { d.Exec("ip", "addr", "del", "10.86.7.1/24", "dev", "other") },
			says:  []string{"10.86.7.", "other", "hint:"},
		},
		{
			name:  "route in use",
			spoil: func(d *daemon) { d.Exec("ip", "route", "add", "10.86.0.0/17", "via", "192.0.2.200") },
			mend:  func(d *daemon) { d.Exec("ip", "route", "del", "10.86.0.0/17") },
			says:  []string{"10.86.0.0/17", "eth0", "hint:"},
		},
		{
			name:  "foreign device of that name",
			spoil: func(d *daemon) { d.Exec("ip", "link", "add", device, "type", "bridge") },
			mend: func(d *daemon) {
				if !d.HasLink(device) {
					t.Error("the foreign device was removed")
				}
				d.Exec("ip", "link", "del", device)
			},
			says: []string{device, "hint:"},
		},
		{
			name:  "foreign TUN device of that name",
			spoil: func(d *daemon) { d.Exec("ip", "tuntap", "add", "dev", device, "mode", "tun") },
			mend: func(d *daemon) {
				if !d.HasLink(device) {
					t.Error("the foreign device was removed")
				}
				d.Exec("ip", "link", "del", device)
			},
			says: []string{device, "hint:"},
		},
	} {
		t.Run(c.name, func(t *testing.T) { d.mustRefuse(t, c) })
	}
	t.Run("port in use", func(t *testing.T) {
		pc, err := d.ListenPacket(f.ctx, fmt.Sprintf("0.0.0.0:%d", meshPort))
		if err != nil {
			t.Fatal(err)
		}
		d.mustRefuse(t, refusal{
			spoil: func(*daemon) {}, mend: func(*daemon) { pc.Close() }, says: []string{"in use", "hint:", "mesh.listen"},
		})
	})
	t.Run("without the right to make devices", func(t *testing.T) {
		out, code := d.unprivileged(t)
		if code != 5 || !strings.Contains(out, "CAP_NET_ADMIN") || !strings.Contains(out, "hint:") {
			t.Errorf("exit %d: %s", code, out)
		}
	})
	d.run()
	f.await("the daemon", 20*time.Second, f.meshed)
}

// mustRefuse lets the daemon fail on a spoilt host.
func (d *daemon) mustRefuse(t *testing.T, c refusal) {
	t.Helper()
	c.spoil(d)
	out, code := d.skein("run", "--config", d.config())
	if code != 1 {
		t.Errorf("exit %d", code)
	}
	last := errorLines(out)
	for _, want := range c.says {
		if !strings.Contains(last, want) {
			t.Errorf("the operator does not read %q:\n%s", want, last)
		}
	}
	t.Log(last)
	c.mend(d)
	if d.HasLink(device) {
		t.Error("a mesh device was left behind")
	}
}

// errorLines are the lines that an operator reads at the terminal.
func errorLines(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "skein: ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// unprivileged runs the daemon as root without CAP_NET_ADMIN.
func (d *daemon) unprivileged(t *testing.T) (string, int) {
	t.Helper()
	cmd := d.Command(d.f.ctx, "setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin", exe, "run", "--config", d.config())
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return errorLines(string(out)), cmd.ProcessState.ExitCode()
}

// TestKilledDaemon: after SIGKILL the device is gone, its socket file does not
// stop the next start, and cleaning up twice is no error.
func TestKilledDaemon(t *testing.T) {
	parallel(t)
	f := newFleet(t, backendTUN, 2)
	f.up()
	d := f.all[1]
	for range 2 {
		d.end(syscall.SIGKILL)
		if d.HasLink(device) {
			t.Error("the TUN device outlived its daemon")
		}
		for range 2 {
			if out, code := d.skein("net", "cleanup", "--config", d.config()); code != 0 {
				t.Errorf("cleanup: exit %d: %s", code, out)
			}
		}
		d.run()
		f.await("full mesh", 30*time.Second, f.meshed)
	}
	if out, code := d.skein("net", "cleanup", "--config", d.config()); code == 0 || !d.HasLink(device) {
		t.Errorf("cleanup under a running daemon: exit %d: %s", code, out)
	}
}

// TestCommandsUnderLoss runs the commands of an operator once against a mesh under
// loss, so that each is seen to end.
func TestCommandsUnderLoss(t *testing.T) {
	parallel(t)
	f := newFleet(t, backend(), 3)
	f.profile = cluster.ProfileLAN // such loss does not cost it the lease
	f.up()
	f.all[2].Shape(nstest.Shape{Loss: 20})
	for _, args := range [][]string{
		{"status"}, {"members"}, {"mesh"}, {"mesh", "n2"}, {"doctor"}, {"events"}, {"token", "ls"},
	} {
		out, code := f.all[2].client(args...)
		if code != 0 && code != 6 { // 6: degraded, which is true
			t.Errorf("skein %s: exit %d: %s", strings.Join(args, " "), code, out)
		}
	}
}
