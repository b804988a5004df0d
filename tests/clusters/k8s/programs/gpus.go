package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	resource = "nvidia.com/gpu"
	endpoint = "gofer-gpus.sock"
	interval = 200 * time.Millisecond
)

// gpus offers device files of a folder, nvidia0 and so on, to the kubelet as GPUs.
// A name in the folder's file "unhealthy" is a GPU that broke.
type gpus struct {
	plugin.UnimplementedDevicePluginServer
	folder string
	count  int
}

func serveGpus(args []string) error {
	var own gpus
	flags := flag.NewFlagSet("gpus", flag.ExitOnError)
	flags.StringVar(&own.folder, "folder", "", "where the device files are")
	flags.IntVar(&own.count, "count", 0, "how many")
	if err := flags.Parse(args); err != nil {
		return err
	}
	// The kubelet removes all sockets when it starts, and then forgets the GPUs until they are offered again.
	for {
		if err := own.offer(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		time.Sleep(interval)
	}
}

// offer blocks until the kubelet has removed the socket.
func (own *gpus) offer() error {
	socket := filepath.Join(plugin.DevicePluginPath, endpoint)
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	defer server.Stop()
	plugin.RegisterDevicePluginServer(server, own)
	go server.Serve(listener) //nolint:errcheck
	if err := register(); err != nil {
		return err
	}
	for {
		if _, err := os.Lstat(socket); err != nil {
			return nil
		}
		time.Sleep(interval)
	}
}

func register() error {
	limited, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	kubelet, err := grpc.NewClient("unix://"+plugin.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer kubelet.Close()
	_, err = plugin.NewRegistrationClient(kubelet).Register(limited, &plugin.RegisterRequest{
		Version:      plugin.Version,
		Endpoint:     endpoint,
		ResourceName: resource,
		Options:      &plugin.DevicePluginOptions{},
	})
	return err
}

func (own *gpus) devices() []*plugin.Device {
	text, _ := os.ReadFile(filepath.Join(own.folder, "unhealthy"))
	broken := strings.Fields(string(text))
	var found []*plugin.Device
	for at := range own.count {
		device := &plugin.Device{ID: fmt.Sprint(at), Health: plugin.Healthy}
		for _, name := range broken {
			if name == device.ID {
				device.Health = plugin.Unhealthy
			}
		}
		found = append(found, device)
	}
	return found
}

func (own *gpus) GetDevicePluginOptions(context.Context, *plugin.Empty) (*plugin.DevicePluginOptions, error) {
	return &plugin.DevicePluginOptions{}, nil
}

func (own *gpus) ListAndWatch(_ *plugin.Empty, stream plugin.DevicePlugin_ListAndWatchServer) error {
	said := ""
	for {
		devices := own.devices()
		if now := fmt.Sprint(devices); now != said {
			if err := stream.Send(&plugin.ListAndWatchResponse{Devices: devices}); err != nil {
				return err
			}
			said = now
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-time.After(interval):
		}
	}
}

func (own *gpus) Allocate(_ context.Context, asked *plugin.AllocateRequest) (*plugin.AllocateResponse, error) {
	answer := &plugin.AllocateResponse{}
	for _, container := range asked.ContainerRequests {
		given := &plugin.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")},
		}
		for _, id := range container.DevicesIds {
			given.Devices = append(given.Devices, &plugin.DeviceSpec{
				HostPath:      filepath.Join(own.folder, "nvidia"+id),
				ContainerPath: "/dev/nvidia" + id,
				Permissions:   "rw",
			})
		}
		answer.ContainerResponses = append(answer.ContainerResponses, given)
	}
	return answer, nil
}
