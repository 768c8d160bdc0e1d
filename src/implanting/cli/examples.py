"""What the help of each verb ends with."""

EXAMPLES = {
    "fit": """\
  implanting fit photos/ --out trees.safetensors         one sub-folder a class
  implanting fit photos/ --out trees.safetensors --skip-bad --unknown none
  implanting fit --from trees.safetensors --add elm=elm-photos/ --remove oak --out trees2.safetensors""",
    "predict": """\
  implanting predict trees.safetensors a.jpg b.jpg       files, folders, or patterns in quotes
  implanting predict trees.safetensors album/ --top 3 --csv
  find . -name '*.jpg' -print0 | implanting predict trees.safetensors - --json --skip-bad""",
    "score": """\
  implanting score trees.safetensors labelled/           one sub-folder a class
  implanting score trees.safetensors labelled/ --report trees.html""",
    "explain": """\
  implanting explain trees.safetensors a.jpg --out a-heat.png
  implanting explain trees.safetensors a.jpg --label oak --finer 3 --out a-oak.png""",
    "demo": """\
  implanting demo                       train and test on handwritten digits
  implanting demo --tasks 1000 --json   narrower intervals, and a document for programs""",
    "pretrain": """\
  implanting pretrain --data data/FC100 --recipe cpu --out base.safetensors
  implanting pretrain --data data/FC100 --recipe cpu --out base.safetensors --resume
  implanting pretrain --data photos --splits classes.json --image-size 84 --epochs 30 --out base.safetensors
  implanting pretrain --data cifar-100-python.tar.gz --splits fc100 --pooling gap --out gap.safetensors""",
    "evaluate": """\
  implanting evaluate --base base.safetensors --data data/FC100 --shot 1 5 10
  implanting evaluate --base base.safetensors --data data/FC100 --shot 5 --implants --tasks 400 --workers 2
  implanting evaluate --base base.safetensors --data data/FC100 --classes both --json""",
    "reproduce": """\
  implanting reproduce table5 --data data/FC100 --recipe cpu --tasks 1000 --out tables
  implanting reproduce table4 --data data/miniImageNet --shot 5 --workers 2 --out tables
  implanting reproduce figure3 --data data/FC100 --recipe cpu --out tables""",
    "info": """\
  implanting info base.safetensors         what the file holds, and whether this machine can run it
  implanting info base.safetensors --json  all of it, for programs
  implanting info --recipes                what each recipe of `implanting pretrain` costs and gives""",
    "bench pretrain": """\
  implanting bench pretrain --widths 32 --rounds 5""",
    "bench adapt": """\
  implanting bench adapt --sizes 84 --tasks 16""",
    "bench evaluate": """\
  implanting bench evaluate --tasks 2000 --json""",
    "bench classifier": """\
  implanting bench classifier --json""",
    "export": """\
  implanting export trees.safetensors --onnx trees.onnx
  implanting export trees.safetensors --onnx trees.onnx --heat-map   with a map for each class""",
    "bench inference": """\
  implanting bench inference --rounds 5""",
}
