package engine

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/skein-project/skein/load"
)

// checker answers calls of a service that every server of gRPC has.
type checker struct {
	grpc_health_v1.UnimplementedHealthServer
}

func (checker) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	_, bounded := ctx.Deadline()
	switch {
	case !bounded || len(md.Get("x-key")) != 1 || md.Get("x-key")[0] != "k1":
		return nil, status.Error(codes.Unauthenticated, "no key")
	case strings.HasPrefix(r.GetService(), "user-"):
		return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
	}
	return nil, status.Errorf(codes.NotFound, "no service %q", r.GetService())
}

func (checker) Watch(_ *grpc_health_v1.HealthCheckRequest, to grpc_health_v1.Health_WatchServer) error {
	for _, s := range []grpc_health_v1.HealthCheckResponse_ServingStatus{1, 2} {
		if err := to.Send(&grpc_health_v1.HealthCheckResponse{Status: s}); err != nil {
			return err
		}
	}
	return nil
}

// descriptors are those of the service.
func descriptors(t *testing.T) []byte {
	t.Helper()
	b, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(grpc_health_v1.File_grpc_health_v1_health_proto)}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCalls: steps call methods of a real server, over TLS and without; what comes is judged as
// JSON, and a status of gRPC as the one of HTTP that it corresponds to.
func TestCalls(t *testing.T) {
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	for scheme, options := range map[string][]grpc.ServerOption{
		"http":  nil,
		"https": {grpc.Creds(credentials.NewServerTLSFromCert(&web.TLS.Certificates[0]))},
	} {
		t.Run(scheme, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server := grpc.NewServer(options...)
			grpc_health_v1.RegisterHealthServer(server, checker{})
			go server.Serve(listener) //nolint:errcheck // it ends with the test
			defer server.Stop()
			at := fmt.Sprintf("%s://%s/grpc.health.v1.Health", scheme, listener.Addr())
			o := Options{PlainTime: true, TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, Files: map[string][]byte{"health.binpb": descriptors(t)}}
			o.Plan = planOf(t, fmt.Sprintf(`
traffic.main = { flow = "f", users = 3, for = "500ms", think = "10ms" }
grpc = { descriptors = "health.binpb" }
http = { headers = { X-Key = "k1" } }
[[flow.f]]
name = "check"
grpc = "%[1]s/Check"
json = { service = "user-${user}" }
check = ["status == 200", "json('$.status') == 'SERVING'", "header('grpc-status') == '0'"]
extract.was = { json = "$.status" }
[[flow.f]]
name = "plain"
grpc = "%[1]s/Check"
body = '{"service": "user-${was}"}'
[[flow.f]]
name = "watch"
grpc = "%[1]s/Watch"
check = "json('$.status') == 'NOT_SERVING'"
[[flow.f]]
name = "missing"
grpc = "%[1]s/Check"
json = { service = "other" }
[[flow.f]]
name = "expected"
grpc = "%[1]s/Check"
json = { service = "other" }
check = "status == 404"
[[flow.f]]
name = "keyless"
grpc = "%[1]s/Check"
headers = { X-Key = "k2" }
`, at), load.Inputs{})
			e, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			r, err := e.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []load.Class{load.OK, load.OK, load.OK, load.HTTP4xx, load.OK, load.HTTP4xx} {
				if s := r.Whole.Series[i]; s.Count() < 3 || s.Classes[want] != s.Count() || s.Out == 0 || i < 3 && s.In == 0 {
					t.Errorf("%s: %v, %d bytes in, %d out", o.Plan.Steps[i].Name, s.Classes, s.In, s.Out)
				}
			}
			text := fmt.Sprint(r.Errors)
			if !strings.Contains(text, `the status is 404: NOT_FOUND, "no service \"other\""`) || !strings.Contains(text, `the status is 401: UNAUTHENTICATED, "no key"`) {
				t.Errorf("errors: %s", text)
			}
		})
	}
}

// TestCallsOfNobody: a target that does not speak gRPC has its class, and a scenario that names
// what is not there is refused before anything is sent.
func TestCallsOfNobody(t *testing.T) {
	step := `
traffic.main = { flow = "f", users = 1, for = "200ms", think = "20ms" }
grpc = { descriptors = "health.binpb" }
[[flow.f]]
grpc = "http://target.test/grpc.health.v1.Health/%s"
json = { %s = "x" }`
	for _, c := range []struct {
		text string
		file []byte
		want string
	}{
		{fmt.Sprintf(step, "None", "service"), descriptors(t), "step step1: the descriptors have no method grpc.health.v1.Health/None, they have grpc.health.v1.Health/Check, "},
		{fmt.Sprintf(step, "Check", "other"), descriptors(t), "step step1: its message is no grpc.health.v1.HealthCheckRequest: "},
		{fmt.Sprintf(step, "Check", "service"), []byte("x"), "health.binpb: is no set of descriptors"},
	} {
		_, err := New(Options{Plan: planOf(t, c.text, load.Inputs{}), Files: map[string][]byte{"health.binpb": c.file}})
		if refused, ok := err.(*RefusedError); !ok || !strings.HasPrefix(refused.Error(), c.want) { //nolint:errorlint // it is what New returns
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
