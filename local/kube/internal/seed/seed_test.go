package seed

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	storage "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"trueup.dev/local/kube/internal/pki"
)

const (
	nodes    = "/api/v1/nodes"
	leases   = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	classes  = "/apis/storage.k8s.io/v1/storageclasses"
	bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
)

// api is a minimal API server: objects by their path.
type api struct {
	mutex   sync.Mutex
	objects map[string]string
	// refused is a method and a path that fail.
	refused string
}

func newAPI(t *testing.T) (*api, kubernetes.Interface) {
	t.Helper()
	api := &api{objects: map[string]string{}}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return api, client
}

func (a *api) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	response.Header().Set("Content-Type", "application/json")
	url := request.URL.Path
	if request.Method+" "+url == a.refused {
		status(response, http.StatusForbidden, meta.StatusReasonForbidden)
		return
	}
	switch request.Method {
	case http.MethodPost:
		body, _ := io.ReadAll(request.Body)
		var object meta.PartialObjectMetadata
		_ = json.Unmarshal(body, &object)
		name := path.Join(url, object.Name)
		if _, exists := a.objects[name]; exists {
			status(response, http.StatusConflict, meta.StatusReasonAlreadyExists)
			return
		}
		a.objects[name] = string(body)
		response.WriteHeader(http.StatusCreated)
		_, _ = response.Write(body)
	case http.MethodGet:
		if url == nodes {
			a.list(response, request.URL.Query().Get("labelSelector"))
		} else if object, exists := a.objects[url]; exists {
			fmt.Fprint(response, object)
		} else {
			status(response, http.StatusNotFound, meta.StatusReasonNotFound)
		}
	case http.MethodDelete:
		if _, exists := a.objects[url]; !exists {
			status(response, http.StatusNotFound, meta.StatusReasonNotFound)
			return
		}
		delete(a.objects, url)
		fmt.Fprint(response, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
	default:
		status(response, http.StatusMethodNotAllowed, meta.StatusReasonMethodNotAllowed)
	}
}

func (a *api) list(response io.Writer, selector string) {
	wanted, err := labels.Parse(selector)
	if err != nil {
		panic(err)
	}
	var items []string
	for _, name := range slices.Sorted(maps.Keys(a.objects)) {
		var object meta.PartialObjectMetadata
		_ = json.Unmarshal([]byte(a.objects[name]), &object)
		if path.Dir(name) == nodes && wanted.Matches(labels.Set(object.Labels)) {
			items = append(items, a.objects[name])
		}
	}
	fmt.Fprintf(response, `{"kind":"NodeList","apiVersion":"v1","items":[%s]}`, strings.Join(items, ","))
}

func status(response http.ResponseWriter, code int, reason meta.StatusReason) {
	response.WriteHeader(code)
	_ = json.NewEncoder(response).Encode(meta.Status{
		TypeMeta: meta.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: meta.StatusFailure,
		Code: int32(code), Reason: reason, Message: string(reason),
	})
}

func get[T any](t *testing.T, api *api, path string) (object T) {
	t.Helper()
	content, exists := api.objects[path]
	if !exists {
		t.Fatalf("there is no %s", path)
	}
	if err := json.Unmarshal([]byte(content), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestNewClusterHasWhatWorkloadsExpect(t *testing.T) {
	api, client := newAPI(t)
	if err := Apply(t.Context(), client, 2); err != nil {
		t.Fatal(err)
	}
	want := []string{
		nodes + "/simulated-1", nodes + "/simulated-2", nodes + "/simulated-gpu-1",
		bindings + "/trueup-kubelet-client", classes + "/standard",
	}
	if found := slices.Sorted(maps.Keys(api.objects)); !slices.Equal(found, want) {
		t.Errorf("it has %q", found)
	}
	for name, gpus := range map[string]int64{"simulated-1": 0, "simulated-2": 0, "simulated-gpu-1": 8} {
		node := get[core.Node](t, api, path.Join(nodes, name))
		if node.Labels[ClassLabel] != ClassSimulated || node.Labels[core.LabelHostname] != name {
			t.Errorf("%s has the labels %v", name, node.Labels)
		}
		for kind, resources := range map[string]core.ResourceList{"capacity": node.Status.Capacity, "allocatable": node.Status.Allocatable} {
			found := resources[gpuResource]
			if found.Value() != gpus || resources.Cpu().Value() != 32 || resources.Pods().Value() != 110 {
				t.Errorf("the %s of %s is %v", kind, name, resources)
			}
		}
	}
	class := get[storage.StorageClass](t, api, classes+"/standard")
	if class.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" || class.Provisioner != "kubernetes.io/host-path" {
		t.Errorf("claims without a class do not bind: %+v", class)
	}
	binding := get[rbac.ClusterRoleBinding](t, api, bindings+"/trueup-kubelet-client")
	if len(binding.Subjects) != 1 || binding.Subjects[0].Name != pki.KubeletClientUser || binding.RoleRef.Name != "system:kubelet-api-admin" {
		t.Errorf("the API server may not read logs: %+v", binding)
	}
}

func TestSecondStartChangesNothing(t *testing.T) {
	api, client := newAPI(t)
	for _, count := range []int{3, 1, 4} {
		before := maps.Clone(api.objects)
		if err := Apply(t.Context(), client, count); err != nil {
			t.Fatal(err)
		}
		for path, object := range before {
			if api.objects[path] != object {
				t.Errorf("%d nodes: %s changed", count, path)
			}
		}
	}
	if _, added := api.objects[nodes+"/simulated-4"]; !added {
		t.Error("a larger number of nodes was ignored")
	}
}

func TestFailureNamesTheObject(t *testing.T) {
	for refused, name := range map[string]string{
		"POST " + nodes:    "simulated-1",
		"POST " + classes:  "standard",
		"POST " + bindings: "kubelets",
	} {
		api, client := newAPI(t)
		api.refused = refused
		if err := Apply(t.Context(), client, 1); !errors.IsForbidden(err) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", refused, err)
		}
	}
}

func TestOnlyLeasesOfSimulatedNodesAreRemoved(t *testing.T) {
	api, client := newAPI(t)
	if err := Apply(t.Context(), client, 2); err != nil {
		t.Fatal(err)
	}
	api.objects[nodes+"/real-1"] = `{"metadata":{"name":"real-1","labels":{"trueup.dev/node-class":"real"}}}`
	// One simulated node never had a lease.
	for _, name := range []string{"simulated-1", "simulated-gpu-1", "real-1"} {
		api.objects[path.Join(leases, name)] = `{}`
	}
	if err := ForgetLeases(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	for name, stays := range map[string]bool{"simulated-1": false, "simulated-gpu-1": false, "real-1": true} {
		if _, exists := api.objects[path.Join(leases, name)]; exists != stays {
			t.Errorf("the lease of %s is there: %t", name, exists)
		}
	}
	api.objects[leases+"/simulated-1"] = `{}`
	api.refused = "DELETE " + leases + "/simulated-1"
	if err := ForgetLeases(t.Context(), client); !errors.IsForbidden(err) {
		t.Errorf("a lease that stays is no error: %v", err)
	}
}

func TestLostNodeIsRemoved(t *testing.T) {
	api, client := newAPI(t)
	api.objects[nodes+"/real-1"] = `{"metadata":{"name":"real-1"}}`
	// The second time there is nothing to remove.
	for range 2 {
		if err := ForgetNode(t.Context(), client, "real-1"); err != nil {
			t.Fatal(err)
		}
		if len(api.objects) != 0 {
			t.Error("it is still there")
		}
	}
	api.refused = "DELETE " + nodes + "/real-1"
	if err := ForgetNode(t.Context(), client, "real-1"); !errors.IsForbidden(err) {
		t.Errorf("%v", err)
	}
}

func TestNodeIsReadyOnlyWhenItSaysSo(t *testing.T) {
	for conditions, isReady := range map[string]bool{
		``:                                          false,
		`{"type":"Ready","status":"True"}`:          true,
		`{"type":"Ready","status":"False"}`:         false,
		`{"type":"Ready","status":"Unknown"}`:       false,
		`{"type":"MemoryPressure","status":"True"}`: false,
		`{"type":"MemoryPressure","status":"False"},{"type":"Ready","status":"True"}`:   true,
		`{"type":"MemoryPressure","status":"True"},{"type":"Ready","status":"Unknown"}`: false,
	} {
		api, client := newAPI(t)
		api.objects[nodes+"/real-1"] = `{"metadata":{"name":"real-1"},"status":{"conditions":[` + conditions + `]}}`
		if err := NodeIsReady(t.Context(), client, "real-1"); (err == nil) != isReady {
			t.Errorf("%s: %v", conditions, err)
		}
		if err := NodeIsReady(t.Context(), client, "real-2"); !errors.IsNotFound(err) {
			t.Errorf("a node that is not there: %v", err)
		}
	}
}
