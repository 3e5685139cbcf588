// trainyard-rank: one rank of a training, with the built-in models. trainyard-worker starts it.
#include <trainyard/program.hpp>

#include "worker/models/deepliif.hpp"
#include "worker/models/fashion_cnn.hpp"
#include "worker/models/gpt2.hpp"
#include "worker/models/resnet.hpp"

int main() {
  trainyard::Models models;
  models.add<trainyard::models::DeepLiif>("deepliif");
  models.add<trainyard::models::FashionCNN>("fashion_cnn");
  models.add<trainyard::models::Gpt2>("gpt2");
  models.add<trainyard::models::ResNet18>("resnet18");
  models.add<trainyard::models::ResNet50>("resnet50");
  trainyard::run_rank(models);
}
